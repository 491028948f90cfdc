/* cubin.h - a number for a cubin, equal for the compiled and the loaded one.
 */
#ifndef ETT_STAND_IN_CUBIN_H
#define ETT_STAND_IN_CUBIN_H

#include <elf.h>
#include <stddef.h>

/* FNV-1a over the file up to the end of its section table and of its sections. */
static inline unsigned long long ett_stand_in_cubin_hash(const char *image) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + head->e_shoff);
  size_t end = head->e_shoff + (size_t)head->e_shnum * sizeof *sections;
  for (int i = 0; i < head->e_shnum; i++)
    if (sections[i].sh_type != SHT_NOBITS &&
        sections[i].sh_offset + sections[i].sh_size > end)
      end = sections[i].sh_offset + sections[i].sh_size;
  unsigned long long hash = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < end; i++)
    hash = (hash ^ (unsigned char)image[i]) * 0x100000001b3ull;
  return hash;
}

#endif
