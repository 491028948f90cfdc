/* ledger_fuzz.c - random descriptions: every byte pair is a request to one ledger,
 * whatever was asked before. Whatever comes out is compiled, evaluated, bounded and
 * searched. */
#include <stdint.h>
#include <stdlib.h>

#include "ledger/ledger.h"
#include "ledger/search.h"
#include "ledger/tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ett_node parameter(ett_graph *g, unsigned which) {
  static const char *const names[4] = {"a", "b", "c", "d"};
  static const double values[4] = {1, 2, 12, 0.5};
  return ett_graph_parameter(g, names[which & 3], values[which & 3], NULL);
}

static ett_node number(ett_graph *g, unsigned which) {
  return which & 1 ? parameter(g, which >> 1) : ett_graph_constant(g, which >> 1, NULL);
}

static void request(ett_ledger *l, unsigned op, unsigned x) {
  ett_graph *g = ett_ledger_graph(l);
  char name[2] = {(char)('A' + x % 26), 0};
  int low = (int)(x & 15) - 1, high = (int)(x >> 4) - 1, joint;
  ett_err err;
  switch (op % 14) {
  case 0:
    ett_ledger_axis(l, name, number(g, x >> 3), x & 1, &err);
    break;
  case 1:
    ett_ledger_dimension(l, name, number(g, x >> 2), low < 4 ? low : -1,
                         number(g, x >> 4), x & 1, &err);
    break;
  case 2:
    ett_ledger_tensor(l, name, x & 15, x >> 4, &err);
    break;
  case 3:
    ett_ledger_multiply(l, low, high, &err);
    break;
  case 4:
    ett_ledger_dot(l, low, high, &err);
    break;
  case 5:
    ett_ledger_broadcast(l, low, x >> 4, &err);
    break;
  case 6:
    ett_ledger_reduce(l, low, high, -1, -1, &err);
    break;
  case 7:
    ett_ledger_reduce(l, low, high, (int)(x % 5), (int)(x % 3), &err);
    break;
  case 8:
    ett_ledger_scatter_transpose(l, low, high, (int)(x % 4), &err);
    break;
  case 9:
    ett_ledger_concatenate(l, low, high, &joint, &err);
    break;
  case 10:
    ett_ledger_open(l, name, number(g, x), &err);
    break;
  case 11:
    ett_ledger_close(l, &err);
    break;
  case 12:
    ett_ledger_check(l, (ett_relation)(x % 5), name, number(g, x >> 3), name,
                     number(g, x >> 4), &err);
    break;
  default:
    ett_ledger_tensor_local(l, low, &err);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ett_ledger *l = ett_ledger_new();
  if (!l)
    return 0;
  ett_graph *g = ett_ledger_graph(l);
  for (unsigned i = 0; i < 4; i++)
    parameter(g, i);
  for (size_t i = 0; i + 1 < size && i < 400; i += 2)
    request(l, data[i], data[i + 1]);
  ett_node outputs[ETT_COUNTS];
  for (int i = 0; i < ETT_COUNTS; i++)
    outputs[i] = ett_ledger_meter_count(l, 0, i);
  size_t entries;
  ett_ledger_entries(l, &entries);
  for (size_t i = 0; i < entries; i++)
    ett_ledger_entry_touched(l, i, NULL);
  ett_tape *tape = ett_tape_new(g, outputs, ETT_COUNTS, NULL);
  double *scratch = malloc(ett_tape_registers(tape) * sizeof *scratch);
  double inputs[4] = {1, 2, 12, 0.5}, out[ETT_COUNTS];
  ett_tape_evaluate(tape, inputs, out, scratch);
  for (int i = 0; i < ETT_COUNTS; i++) { /* the direct count and the compiled one agree */
    double direct = ett_graph_value(g, outputs[i]);
    if (direct == direct && direct != out[i])
      abort();
  }
  ett_variable v = {.domain = ETT_DOMAIN_INTEGER, .input = 1, .low = 1, .high = 9};
  ett_search_options options = {.boxes = 50};
  ett_search_result result;
  ett_search_run(tape, inputs, &v, 1, &options, &result, NULL);
  free(scratch);
  ett_tape_free(tape);
  ett_ledger_free(l);
  return 0;
}
