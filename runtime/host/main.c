/* ett - estimates time, memory and cost of training. */
#include "host/cli.h"

int main(int argc, char **argv) {
  return cli_main(argc, argv);
}
