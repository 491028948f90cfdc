/* The CUDA libraries, loaded at their first use.
 *
 * Nothing links against CUDA, so ett runs on machines without a driver or toolkit. A
 * table holds the functions of a library under their own names: `driver->cuInit(0)`. */
#ifndef ETT_CUDA_LIBRARIES_H
#define ETT_CUDA_LIBRARIES_H

#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>
#ifdef ETT_HAVE_CUDNN
#include <cudnn_graph.h>
#endif
#ifdef ETT_HAVE_CUPTI
#include <cupti.h>
#endif

#include "base/err.h"

#define ETT_CUDA_DRIVER(X)                                                               \
  X(cuInit)                                                                              \
  X(cuDriverGetVersion)                                                                  \
  X(cuDeviceGetCount)                                                                    \
  X(cuDeviceGet)                                                                         \
  X(cuDeviceGetName)                                                                     \
  X(cuDeviceGetAttribute)                                                                \
  X(cuDeviceTotalMem)                                                                    \
  X(cuDeviceCanAccessPeer)                                                               \
  X(cuDevicePrimaryCtxRetain)                                                            \
  X(cuDevicePrimaryCtxRelease)                                                           \
  X(cuCtxSetCurrent)                                                                     \
  X(cuCtxEnablePeerAccess)                                                               \
  X(cuCtxDisablePeerAccess)                                                              \
  X(cuCtxSynchronize)                                                                    \
  X(cuGetErrorString)                                                                    \
  X(cuMemAlloc)                                                                          \
  X(cuMemFree)                                                                           \
  X(cuMemGetInfo)                                                                        \
  X(cuMemcpyHtoD)                                                                        \
  X(cuMemcpyDtoH)                                                                        \
  X(cuMemcpyPeerAsync)                                                                   \
  X(cuMemsetD8Async)                                                                     \
  X(cuModuleLoadData)                                                                    \
  X(cuModuleUnload)                                                                      \
  X(cuModuleGetFunction)                                                                 \
  X(cuFuncSetAttribute)                                                                  \
  X(cuLaunchKernel)                                                                      \
  X(cuStreamCreate)                                                                      \
  X(cuStreamDestroy)                                                                     \
  X(cuStreamQuery)                                                                       \
  X(cuStreamBeginCapture)                                                                \
  X(cuStreamEndCapture)                                                                  \
  X(cuGraphInstantiateWithFlags)                                                         \
  X(cuGraphLaunch)                                                                       \
  X(cuGraphExecDestroy)                                                                  \
  X(cuGraphDestroy)                                                                      \
  X(cuEventCreate)                                                                       \
  X(cuEventRecord)                                                                       \
  X(cuEventElapsedTime)                                                                  \
  X(cuEventDestroy)

/* Optional functions: NULL in the table if the driver lacks them. */
#if CUDA_VERSION >= 12040
#define ETT_CUDA_DRIVER_OPTIONAL(X) X(cuFuncGetParamInfo)
#else
#define ETT_CUDA_DRIVER_OPTIONAL(X)
#endif

#define ETT_CUDA_NVRTC(X)                                                                \
  X(nvrtcVersion)                                                                        \
  X(nvrtcCreateProgram)                                                                  \
  X(nvrtcCompileProgram)                                                                 \
  X(nvrtcGetProgramLogSize)                                                              \
  X(nvrtcGetProgramLog)                                                                  \
  X(nvrtcGetCUBINSize)                                                                   \
  X(nvrtcGetCUBIN)                                                                       \
  X(nvrtcDestroyProgram)                                                                 \
  X(nvrtcGetErrorString)

#define ETT_CUDA_BLAS(X)                                                                 \
  X(cublasLtCreate)                                                                      \
  X(cublasLtDestroy)                                                                     \
  X(cublasLtGetVersion)                                                                  \
  X(cublasLtGetStatusString)                                                             \
  X(cublasLtMatmulDescCreate)                                                            \
  X(cublasLtMatmulDescDestroy)                                                           \
  X(cublasLtMatmulDescSetAttribute)                                                      \
  X(cublasLtMatrixLayoutCreate)                                                          \
  X(cublasLtMatrixLayoutDestroy)                                                         \
  X(cublasLtMatrixLayoutSetAttribute)                                                    \
  X(cublasLtMatmulPreferenceCreate)                                                      \
  X(cublasLtMatmulPreferenceDestroy)                                                     \
  X(cublasLtMatmulPreferenceSetAttribute)                                                \
  X(cublasLtMatmulAlgoGetHeuristic)                                                      \
  X(cublasLtMatmul)

#define ETT_CUDA_DNN(X)                                                                  \
  X(cudnnCreate)                                                                         \
  X(cudnnDestroy)                                                                        \
  X(cudnnSetStream)                                                                      \
  X(cudnnGetVersion)                                                                     \
  X(cudnnGetErrorString)                                                                 \
  X(cudnnBackendCreateDescriptor)                                                        \
  X(cudnnBackendDestroyDescriptor)                                                       \
  X(cudnnBackendSetAttribute)                                                            \
  X(cudnnBackendGetAttribute)                                                            \
  X(cudnnBackendFinalize)                                                                \
  X(cudnnBackendExecute)

#define ETT_CUDA_CUPTI(X)                                                                \
  X(cuptiActivityEnable)                                                                 \
  X(cuptiActivityDisable)                                                                \
  X(cuptiActivityRegisterCallbacks)                                                      \
  X(cuptiActivityFlushAll)                                                               \
  X(cuptiActivityGetNextRecord)                                                          \
  X(cuptiGetResultString)

#define ETT_CUDA_FIELD(name) __typeof__(name) *name;
typedef struct ett_cuda_driver {
  ETT_CUDA_DRIVER(ETT_CUDA_FIELD)
  ETT_CUDA_DRIVER_OPTIONAL(ETT_CUDA_FIELD)
} ett_cuda_driver;
typedef struct ett_cuda_nvrtc {
  ETT_CUDA_NVRTC(ETT_CUDA_FIELD)
} ett_cuda_nvrtc;
typedef struct ett_cuda_blas {
  ETT_CUDA_BLAS(ETT_CUDA_FIELD)
} ett_cuda_blas;
#ifdef ETT_HAVE_CUDNN
typedef struct ett_cuda_dnn {
  ETT_CUDA_DNN(ETT_CUDA_FIELD)
} ett_cuda_dnn;
#endif
#ifdef ETT_HAVE_CUPTI
typedef struct ett_cuda_cupti {
  ETT_CUDA_CUPTI(ETT_CUDA_FIELD)
} ett_cuda_cupti;
#endif
#undef ETT_CUDA_FIELD

/* Each returns the library's table (opened once, never closed). NULL: err names the
 * missing library and the package to install. */
const ett_cuda_driver *ett_cuda_driver_open(ett_err *err);
const ett_cuda_nvrtc *ett_cuda_nvrtc_open(ett_err *err);
const ett_cuda_blas *ett_cuda_blas_open(ett_err *err);
#ifdef ETT_HAVE_CUDNN
const ett_cuda_dnn *ett_cuda_dnn_open(ett_err *err);
#endif
#ifdef ETT_HAVE_CUPTI
const ett_cuda_cupti *ett_cuda_cupti_open(ett_err *err);
#endif

/* Returns 0 for success; else fills err from a driver status and returns -1. For an open
 * device use ett_cuda_device_check (device.h). */
int ett_cuda_check(const ett_cuda_driver *driver, CUresult status, const char *doing,
                   ett_err *err);

#endif
