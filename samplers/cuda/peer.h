/* peer.h - how fast one GPU writes into another's memory. */
#ifndef ETT_CUDA_PEER_H
#define ETT_CUDA_PEER_H

#include "samplers/cuda/device.h"

typedef struct ett_cuda_peer {
  int direct;       /* over the link between them; 0: by way of the host's memory */
  double bandwidth; /* bytes/s one way, the best of a few copies */
} ett_cuda_peer;

/* Copies `bytes` from one open device to another, `repeats` times after one that does not
 * count. What was allocated is freed and peer access is as before, also after an error.
 * The devices must be different. */
int ett_cuda_peer_measure(ett_cuda_device *from, ett_cuda_device *to, size_t bytes,
                          int repeats, double time_limit_seconds, ett_cuda_peer *peer,
                          ett_err *err);

#endif
