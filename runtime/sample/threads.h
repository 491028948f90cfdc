/* How many threads one rank may measure with. It stands here and not with the CPU back
 * end, because a campaign is checked before OpenBLAS is loaded: that reads its
 * environment as it is loaded. */
#ifndef ETT_SAMPLE_THREADS_H
#define ETT_SAMPLE_THREADS_H

enum { ETT_SAMPLE_MOST_THREADS = 1024 };

#endif
