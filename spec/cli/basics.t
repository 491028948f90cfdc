$ ett --version
ett 0.1.0

$ ett --help
usage: ett COMMAND [option ...] [argument ...]
...

$ ett nonsense
ett: unknown command 'nonsense'...
?2

$ ett bench --nonsense
ett: bench: unknown option '--nonsense'...
?2
