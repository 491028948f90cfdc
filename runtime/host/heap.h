/* The heap of malloc in the executable. */
#ifndef ETT_HOST_HEAP_H
#define ETT_HOST_HEAP_H

/* Maps the heap's first pages at once, and asks for huge pages behind them. On virtual
 * machines a page fault can cost 20 us: the heap's faults took two fifths of a prediction
 * with cached models. Blocks of up to 32 MiB come from this heap and return to it. Before
 * the first threads. */
void heap_prepare(void);

#endif
