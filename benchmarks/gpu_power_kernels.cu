// Kernels that load one unit of the GPU at a time, for gpu_power.py: waiting, loads and stores at one
// level of memory, arithmetic in registers, tensor cores fed from shared memory.
//
// Every launcher returns the CUDA error code. `blocks` chooses how many SMs are loaded: a block of
// one_per_sm() bytes of shared memory has an SM for itself.

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace {

constexpr int kOnePerSm = 120 * 1024;  // two such blocks do not fit in the 227 KiB of one SM

__device__ __forceinline__ uint64_t now_ns() {
  uint64_t time_ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time_ns));
  return time_ns;
}

// ---- waiting ----------------------------------------------------------------------------------

__global__ void nothing() {}

__global__ void wait_asleep(uint64_t duration_ns) {
  const uint64_t end_ns = now_ns() + duration_ns;
  while (now_ns() < end_ns) __nanosleep(100000);
}

__global__ void wait_awake(uint64_t duration_ns) {
  const uint64_t end_ns = now_ns() + duration_ns;
  while (now_ns() < end_ns) {
    const long long begin = clock64();
    while (clock64() - begin < 1000) {
    }
  }
}

// Lane 0 of every warp follows its own chain; the other lanes wait for it.
__global__ void chase(const uint32_t* next, uint32_t nodes, uint32_t stride, long steps, uint32_t* sink) {
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const uint32_t warps = gridDim.x * blockDim.x / 32;
  uint32_t at = static_cast<uint32_t>(static_cast<uint64_t>(warp) * nodes / warps);
  if (threadIdx.x % 32 == 0) {
    for (long step = 0; step < steps; ++step) at = __ldcg(next + static_cast<size_t>(at) * stride);
  }
  if (at == 0xffffffffu) *sink = at;
}

// ---- streams ----------------------------------------------------------------------------------

constexpr int kLoads = 4;      // of 16 bytes, in flight per thread
constexpr int kAligned = 64;  // 16-byte words: slices begin at multiples of 1 KiB

__device__ __forceinline__ uint4 mixed(uint4 value, uint4 other) {
  return make_uint4(value.x ^ other.x, value.y ^ other.y, value.z ^ other.z, value.w ^ other.w);
}

// Blocks swap their slices every round, so that no slice stays beside one SM.
__device__ __forceinline__ size_t slice_of(int round) { return (blockIdx.x + round) % gridDim.x; }

__global__ void read_only(const uint4* from, size_t slice, int rounds, uint4* sink) {
  uint4 sum = make_uint4(0, 0, 0, 0);
  for (int round = 0; round < rounds; ++round) {
    const uint4* begin = from + slice_of(round) * slice;
    size_t i = threadIdx.x;
    for (; i + (kLoads - 1) * blockDim.x < slice; i += kLoads * blockDim.x) {
      uint4 values[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) values[j] = __ldcg(begin + i + j * blockDim.x);
#pragma unroll
      for (int j = 0; j < kLoads; ++j) sum = mixed(sum, values[j]);
    }
    for (; i < slice; i += blockDim.x) sum = mixed(sum, __ldcg(begin + i));
  }
  if (sum.x == 0x12345678u && sum.y == 0x9abcdef0u) *sink = sum;
}

__global__ void write_only(uint4* to, size_t slice, int rounds, uint32_t random) {
  for (int round = 0; round < rounds; ++round) {
    const size_t first = slice_of(round) * slice;
#pragma unroll 4
    for (size_t i = threadIdx.x; i < slice; i += blockDim.x) {
      const uint32_t bits = random * static_cast<uint32_t>(first + i + round) * 2654435761u;
      __stcg(to + first + i, make_uint4(bits, bits * 3u, bits * 5u, bits * 7u));
    }
  }
}

__global__ void copy_one_to_other(uint4* to, const uint4* from, size_t slice, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const size_t first = slice_of(round) * slice;
    size_t i = first + threadIdx.x;
    for (; i + (kLoads - 1) * blockDim.x < first + slice; i += kLoads * blockDim.x) {
      uint4 values[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j) values[j] = __ldcg(from + i + j * blockDim.x);
#pragma unroll
      for (int j = 0; j < kLoads; ++j) __stcg(to + i + j * blockDim.x, values[j]);
    }
    for (; i < first + slice; i += blockDim.x) __stcg(to + i, __ldcg(from + i));
  }
}

// Every block reads its own slice again and again, through L1. Of this and of shared memory a slice
// is a multiple of kLoads x threads.
__global__ void read_l1(const uint4* from, size_t slice, int rounds, uint4* sink) {
  uint4 sum = make_uint4(0, 0, 0, 0);
  const uint4* begin = from + blockIdx.x * slice;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = threadIdx.x; i < slice; i += kLoads * blockDim.x) {
      uint4 values[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j)
        asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(values[j].x), "=r"(values[j].y), "=r"(values[j].z), "=r"(values[j].w)
                     : "l"(begin + i + j * blockDim.x));
#pragma unroll
      for (int j = 0; j < kLoads; ++j) sum = mixed(sum, values[j]);
    }
  }
  if (sum.x == 0x12345678u && sum.y == 0x9abcdef0u) *sink = sum;
}

__global__ void read_shared(const uint4* from, int slice, int rounds, uint4* sink) {
  extern __shared__ uint4 tile[];
  for (int i = threadIdx.x; i < slice; i += blockDim.x) tile[i] = from[i];
  __syncthreads();
  uint4 sum = make_uint4(0, 0, 0, 0);
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  for (int round = 0; round < rounds; ++round) {
    for (int i = threadIdx.x; i < slice; i += kLoads * blockDim.x) {
      uint4 values[kLoads];
#pragma unroll
      for (int j = 0; j < kLoads; ++j)
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(values[j].x), "=r"(values[j].y), "=r"(values[j].z), "=r"(values[j].w)
                     : "r"(base + static_cast<uint32_t>(i + j * blockDim.x) * 16u));
#pragma unroll
      for (int j = 0; j < kLoads; ++j) sum = mixed(sum, values[j]);
    }
  }
  if (sum.x == 0x12345678u && sum.y == 0x9abcdef0u) *sink = sum;
}

// ---- arithmetic in registers ------------------------------------------------------------------
// Eight independent chains per thread. x -> shift - x changes its bits every time and stays bounded.

constexpr int kChains = 8;
constexpr int kInner = 16;

__global__ void fma_fp32(long rounds, float factor, float spread, float* sink) {
  float x[kChains], shift[kChains];
  for (int j = 0; j < kChains; ++j) {
    x[j] = spread * (0.37f + 0.0131f * threadIdx.x + 0.173f * j);
    shift[j] = spread * (1.11f + 0.0171f * threadIdx.x + 0.091f * j);
  }
  for (long round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kInner; ++i)
#pragma unroll
      for (int j = 0; j < kChains; ++j) x[j] = fmaf(x[j], factor, shift[j]);
  }
  float sum = 0;
  for (int j = 0; j < kChains; ++j) sum += x[j];
  if (sum == 1234.5f) *sink = sum;
}

__global__ void fma_fp64(long rounds, double factor, double spread, double* sink) {
  double x[kChains], shift[kChains];
  for (int j = 0; j < kChains; ++j) {
    x[j] = spread * (0.37 + 0.0131 * threadIdx.x + 0.173 * j);
    shift[j] = spread * (1.11 + 0.0171 * threadIdx.x + 0.091 * j);
  }
  for (long round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kInner; ++i)
#pragma unroll
      for (int j = 0; j < kChains; ++j) x[j] = fma(x[j], factor, shift[j]);
  }
  double sum = 0;
  for (int j = 0; j < kChains; ++j) sum += x[j];
  if (sum == 1234.5) *sink = sum;
}

__global__ void fma_fp16(long rounds, float factor, float spread, __half2* sink) {
  __half2 x[kChains], shift[kChains];
  const __half2 times = __float2half2_rn(factor);
  for (int j = 0; j < kChains; ++j) {
    x[j] = __float2half2_rn(spread * (0.37f + 0.00131f * threadIdx.x + 0.173f * j));
    shift[j] = __float2half2_rn(spread * (1.11f + 0.00171f * threadIdx.x + 0.091f * j));
  }
  for (long round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kInner; ++i)
#pragma unroll
      for (int j = 0; j < kChains; ++j) x[j] = __hfma2(x[j], times, shift[j]);
  }
  __half2 sum = x[0];
  for (int j = 1; j < kChains; ++j) sum = __hadd2(sum, x[j]);
  if (__low2float(sum) == 1234.5f) *sink = sum;
}

__global__ void mad_int32(long rounds, uint32_t factor, uint32_t spread, uint32_t* sink) {
  uint32_t x[kChains], shift[kChains];
  for (int j = 0; j < kChains; ++j) {
    x[j] = spread * (2654435761u * (threadIdx.x + 31u * j));
    shift[j] = spread * (2246822519u * (threadIdx.x + 17u * j + 1u));
  }
  for (long round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kInner; ++i)
#pragma unroll
      for (int j = 0; j < kChains; ++j) x[j] = x[j] * factor + shift[j];
  }
  uint32_t sum = 0;
  for (int j = 0; j < kChains; ++j) sum ^= x[j];
  if (sum == 0x12345678u) *sink = sum;
}

// 2^(4 - x) falls into a cycle of two values, so that every result differs from the one before.
__global__ void exp2_fp32(long rounds, float factor, float spread, float* sink) {
  float x[kChains];
  const float shift = 4.0f * spread;
  for (int j = 0; j < kChains; ++j) x[j] = spread * (0.37f + 0.0131f * threadIdx.x + 0.173f * j);
  for (long round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kInner; ++i)
#pragma unroll
      for (int j = 0; j < kChains; ++j) {
        const float in = fmaf(x[j], factor, shift);
        asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(x[j]) : "f"(in));
      }
  }
  float sum = 0;
  for (int j = 0; j < kChains; ++j) sum += x[j];
  if (sum == 1234.5f) *sink = sum;
}

// ---- tensor cores fed from shared memory --------------------------------------------------------
// Two warpgroups of one block multiply 64 x 128 tiles; four stages of operands stay in shared
// memory. Odd passes subtract what even passes added, so that sums stay bounded. The order of the
// elements in a tile is of no account here.

constexpr int kStages = 4;
constexpr int kTileBytes = 128 * 128;     // of the operand both warpgroups share
constexpr int kHalfTileBytes = 64 * 128;  // of the operand of one warpgroup
constexpr int kStageBytes = kTileBytes + 2 * kHalfTileBytes;
constexpr int kSteps = 4;  // products along the 128 bytes of a tile's row
constexpr int kTensorBytes = kStages * kStageBytes;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// 128-byte swizzle, 1,024 bytes from one group of eight rows to the next.
__device__ __forceinline__ uint64_t descriptor(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | (uint64_t{1} << 16) | (uint64_t{64} << 32) |
         (uint64_t{1} << 62);
}

#define SUMS                                                                                       \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "   \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "    \
  "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "    \
  "%56, %57, %58, %59, %60, %61, %62, %63}"
#define R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(d, i) R4(d, i), R4(d, i + 4), R4(d, i + 8), R4(d, i + 12)
#define R64(d) R16(d, 0), R16(d, 16), R16(d, 32), R16(d, 48)

template <bool kFp8, int kSign>
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b) {
  if constexpr (kFp8) {
    asm volatile("{.reg .pred adds; setp.eq.u32 adds, 1, 1; wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
                 SUMS ", %64, %65, adds, %66, 1;}"
                 : R64(d)
                 : "l"(a), "l"(b), "n"(kSign));
  } else {
    asm volatile("{.reg .pred adds; setp.eq.u32 adds, 1, 1; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 SUMS ", %64, %65, adds, %66, 1, 0, 0;}"
                 : R64(d)
                 : "l"(a), "l"(b), "n"(kSign));
  }
}

template <bool kFp8, int kSign>
__device__ __forceinline__ void pass(float (&d)[64], uint32_t tiles, uint32_t warpgroup) {
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) {
    const uint32_t shared = tiles + stage * kStageBytes;
    const uint32_t own = shared + kTileBytes + warpgroup * kHalfTileBytes;
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      multiply<kFp8, kSign>(d, descriptor(own + 32 * step), descriptor(shared + 32 * step));
  }
}
#endif

template <bool kFp8>
__global__ void __launch_bounds__(256, 1) tensor(const uint4* from, long rounds, float* sink) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint4 raw[];
  const uint32_t begin = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
  const uint32_t pad = (1024u - begin % 1024u) % 1024u;
  uint4* tiles = raw + pad / 16;
  for (int i = threadIdx.x; i < kTensorBytes / 16; i += blockDim.x) tiles[i] = from[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[64] = {};
  for (long round = 0; round < rounds; ++round) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    pass<kFp8, 1>(d, begin + pad, threadIdx.x / 128);
    pass<kFp8, -1>(d, begin + pad, threadIdx.x / 128);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
  for (int i = 0; i < 64; ++i) sum += d[i];
  if (sum == 1234.5f) *sink = sum;
#else
  __trap();
#endif
}

int grow_shared(const void* kernel, int bytes) {
  return static_cast<int>(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

}  // namespace

extern "C" {

// Called once, before any capture.
int prepare() {
  const void* kernels[] = {
      reinterpret_cast<const void*>(read_only),  reinterpret_cast<const void*>(write_only),
      reinterpret_cast<const void*>(copy_one_to_other), reinterpret_cast<const void*>(read_shared),
      reinterpret_cast<const void*>(fma_fp32),   reinterpret_cast<const void*>(fma_fp64),
      reinterpret_cast<const void*>(fma_fp16),   reinterpret_cast<const void*>(mad_int32),
      reinterpret_cast<const void*>(exp2_fp32),  reinterpret_cast<const void*>(wait_asleep),
      reinterpret_cast<const void*>(wait_awake), reinterpret_cast<const void*>(chase)};
  for (const void* kernel : kernels)
    if (const int problem = grow_shared(kernel, kOnePerSm)) return problem;
  if (const int problem = grow_shared(reinterpret_cast<const void*>(tensor<false>), kTensorBytes + 1024))
    return problem;
  return grow_shared(reinterpret_cast<const void*>(tensor<true>), kTensorBytes + 1024);
}

int run_nothing(cudaStream_t stream) {
  nothing<<<1, 32, 0, stream>>>();
  return cudaGetLastError();
}

// awake 1 spins, 0 sleeps; alone 1 keeps an SM for each block.
int run_wait(int awake, int alone, uint64_t duration_ns, int blocks, int threads, cudaStream_t stream) {
  const int shared = alone ? kOnePerSm : 0;
  if (awake)
    wait_awake<<<blocks, threads, shared, stream>>>(duration_ns);
  else
    wait_asleep<<<blocks, threads, shared, stream>>>(duration_ns);
  return cudaGetLastError();
}

int run_chase(const void* next, uint32_t nodes, uint32_t stride, long steps, int blocks, int threads,
              void* sink, cudaStream_t stream) {
  chase<<<blocks, threads, kOnePerSm, stream>>>(static_cast<const uint32_t*>(next), nodes, stride, steps,
                                                static_cast<uint32_t*>(sink));
  return cudaGetLastError();
}

// kind 0 reads, 1 writes, 2 copies, 3 reads through L1, 4 reads shared memory; bytes of one round
// (of kinds 3 and 4 for every block), of kind 2 read and written together.
int run_stream(int kind, void* a, void* b, size_t bytes, int rounds, int blocks, int threads,
               uint32_t random, void* sink, cudaStream_t stream) {
  uint4* first = static_cast<uint4*>(a);
  uint4* second = static_cast<uint4*>(b);
  uint4* result = static_cast<uint4*>(sink);
  const size_t slice = bytes / 16 / blocks / (kind == 2 ? 2 : 1) / kAligned * kAligned;
  if (kind == 0) read_only<<<blocks, threads, kOnePerSm, stream>>>(first, slice, rounds, result);
  if (kind == 1) write_only<<<blocks, threads, kOnePerSm, stream>>>(first, slice, rounds, random);
  if (kind == 2)
    copy_one_to_other<<<blocks, threads, kOnePerSm, stream>>>(first, second, slice, rounds);
  if (kind == 3) read_l1<<<blocks, threads, 0, stream>>>(first, bytes / 16, rounds, result);
  if (kind == 4) read_shared<<<blocks, threads, kOnePerSm, stream>>>(first, static_cast<int>(bytes / 16), rounds, result);
  return cudaGetLastError();
}

// kind 0 fp32, 1 fp64, 2 fp16 pairs, 3 int32, 4 exp2; spread 0 computes on zeros.
int run_arithmetic(int kind, long rounds, float spread, int blocks, int threads, void* sink,
                   cudaStream_t stream) {
  const float factor = -spread;
  if (kind == 0)
    fma_fp32<<<blocks, threads, kOnePerSm, stream>>>(rounds, factor, spread, static_cast<float*>(sink));
  if (kind == 1)
    fma_fp64<<<blocks, threads, kOnePerSm, stream>>>(rounds, factor, spread, static_cast<double*>(sink));
  if (kind == 2)
    fma_fp16<<<blocks, threads, kOnePerSm, stream>>>(rounds, factor, spread, static_cast<__half2*>(sink));
  if (kind == 3)
    mad_int32<<<blocks, threads, kOnePerSm, stream>>>(rounds, 0xffffffffu * static_cast<uint32_t>(spread),
                                                      static_cast<uint32_t>(spread), static_cast<uint32_t*>(sink));
  if (kind == 4)
    exp2_fp32<<<blocks, threads, kOnePerSm, stream>>>(rounds, factor, spread, static_cast<float*>(sink));
  return cudaGetLastError();
}

// from: at least tensor_bytes() of operands.
int run_tensor(int fp8, const void* from, long rounds, int blocks, void* sink, cudaStream_t stream) {
  const uint4* operands = static_cast<const uint4*>(from);
  if (fp8)
    tensor<true><<<blocks, 256, kTensorBytes + 1024, stream>>>(operands, rounds, static_cast<float*>(sink));
  else
    tensor<false><<<blocks, 256, kTensorBytes + 1024, stream>>>(operands, rounds, static_cast<float*>(sink));
  return cudaGetLastError();
}

int tensor_bytes() { return kTensorBytes; }
}
