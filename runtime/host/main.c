/* ett - estimates how long, how much memory and how much money training takes. */
#include "host/cli.h"

int main(int argc, char **argv) {
  return cli_main(argc, argv);
}
