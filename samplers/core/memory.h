/* How much memory a process may still take: what the machine has free, and what the
 * control groups that the process is in leave (cgroup v1 and v2). A process that goes
 * past a group's limit is killed without a word, so the question comes before. */
#ifndef ETT_SAMPLE_MEMORY_H
#define ETT_SAMPLE_MEMORY_H

/* Bytes; pages that the group holds of inactive files count as free. root goes before
 * /proc/self/cgroup and /sys/fs/cgroup: "" but in tests. */
double ett_sample_memory_free(const char *root);

#endif
