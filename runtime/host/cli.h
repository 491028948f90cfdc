/* The command line: passes the arguments to lua/ett/cli and prints errors. */
#ifndef ETT_CLI_H
#define ETT_CLI_H

/* Runs `ett …`; returns the exit status: 0 success, 1 fault, 2 usage. */
int cli_main(int argc, char **argv);

#endif
