# A terminal to type at is a pseudo-terminal.
ett_c_test(line LIBRARIES ett_line_core util)
