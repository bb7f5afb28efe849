// Blocks of an SM by NVIDIA's cuda_occupancy.h, for rows of
// major minor warps shared_bytes reserved_bytes registers threads shared_of_block.
#include <climits>
#include <cstddef>
#include <cstdio>

#include "cuda_occupancy.h"

int main() {
  int major, minor, warps, shared, reserved, registers, threads, block;
  while (std::scanf("%d %d %d %d %d %d %d %d", &major, &minor, &warps, &shared, &reserved, &registers, &threads, &block) == 8) {
    cudaOccDeviceProp device;
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = warps * 32;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = shared;
    device.sharedMemPerBlockOptin = shared - reserved;
    device.reservedSharedMemPerBlock = reserved;
    device.numSms = 1;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = block;
    kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    cudaOccResult found;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&found, &device, &kernel, &state, threads, block)) return 1;
    std::printf("%d\n", found.activeBlocksPerMultiprocessor);
  }
}
