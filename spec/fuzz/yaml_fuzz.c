/* No text makes the YAML reader crash, leak, run away or answer without a value. */
#include <stdlib.h>

#include "io/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every node is reached once from the root, and refers to nodes and text that are there.
 */
static size_t walk(const ett_yaml_document *d, int32_t index, int depth) {
  size_t seen = 1;
  if (index < 0 || (size_t)index >= d->count || depth > ETT_YAML_MAX_DEPTH)
    abort();
  const ett_yaml_node *node = &d->nodes[index];
  if (node->kind == ETT_YAML_STRING &&
      node->value.string.offset + node->value.string.length >= d->text_length)
    abort();
  if (node->kind == ETT_YAML_ALIAS &&
      (node->value.integer < 0 || node->value.integer >= index))
    abort();
  for (int32_t child = node->first; child >= 0; child = d->nodes[child].next)
    seen += walk(d, child, depth + 1);
  return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const ett_yaml_limits limits = {32, 10000, (size_t)1 << 20};
  ett_yaml_document document;
  ett_err err = {ETT_OK, ""};
  if (ett_yaml_read((const char *)data, size, &limits, &document, &err) == 0) {
    if (walk(&document, 0, 0) != document.count)
      abort();
  } else if (err.code == ETT_OK || !err.message[0]) {
    abort();
  }
  ett_yaml_free(&document);
  return 0;
}
