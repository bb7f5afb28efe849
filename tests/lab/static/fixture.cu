// Source of fixture.sm_90.cubin; compiled by
//   perfatlas kernel inspect fixture.cu --target sm_90 --reproducer FOLDER
extern "C" __global__ void __launch_bounds__(128) wgmma(float* out, unsigned long long descriptor, int steps) {
  __shared__ float staged[128];
  float a[4] = {0.f, 0.f, 0.f, 0.f};
  for (int i = 0; i < steps; ++i) {
    asm volatile(
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;\n"
        "wgmma.commit_group.sync.aligned;\n"
        "wgmma.wait_group.sync.aligned 0;\n"
        : "+f"(a[0]), "+f"(a[1]), "+f"(a[2]), "+f"(a[3]) : "l"(descriptor + i));
  }
  staged[threadIdx.x] = a[0] + a[1];
  __syncthreads();
  out[threadIdx.x] = staged[127 - threadIdx.x] + a[2] + a[3];
}

// An array that is indexed at run time lies in local memory.
extern "C" __global__ void local(float* out, const float* in, int n) {
  float kept[32];
  for (int i = 0; i < 32; ++i) kept[i] = in[i * n];
  float sum = 0.f;
  for (int i = 0; i < n; ++i) sum += kept[in[i] > 0.f ? i & 31 : 31 - (i & 31)];
  out[threadIdx.x] = sum;
}
