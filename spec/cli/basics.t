$ ett --version
ett 0.1.0

$ ett --help
usage: ett COMMAND [option ...] [argument ...]
...

Its first prediction fits.
$ $(ett --help | grep -o 'ett predict --model .*') | grep '^memory  '
memory      63.85 GB of 84.98 GB on the fullest device

$ ett nonsense
ett: unknown command 'nonsense'...
?2

$ ett --help | tail -2; ett predict --help | grep -o 'T, P (powers of 1000)'
`ett COMMAND --help` explains a command; `ett list models clusters` prints names.
`ett --version` prints the version.
T, P (powers of 1000)

The exit status: 2 for names and values that the command line gets wrong, 1 for rules between fields and for files.
$ W='predict --model llama3-8b seq=1024 micro_batches=1'; for c in "$W tp=two" "$W hidden=x" "$W stack=x" "$W schedule=x" "$W stack=7" "$W schedule=true" "$W --cluster x" "predict --model lama" "sweep --model llama3-8b seq=1024 micro_batches=1 tp=1,x" "search --model llama3-8b --devices 1 --seq 1 --global-batch 1 --vary cluster=x,y" "trace $SPEC/trace_run x" "sample x" "submit x --print" "sample cpu_30s --backend x" "show-example x" "list x" "optimize x=1" "transformer --num_layers 8 --d_model 1024 --dataset_size 1e9 --cluster x" "$W tp=3" "predict --model x.json" "$W --cluster x.lua" "fit x" "run x.lua"; do ett $c >new.out 2>&1; printf '%s ' $?; done
2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 1 1 1 1 1 ...

$ ett bench sweep --rows
ett: bench: --rows has no effect on sweep
?2

$ ett bench literature --page x
ett: bench: --page has no effect on literature
?2

A benchmark that fails prints the rows that it had found.
$ mkdir -p spec/bench; echo 'return { summary = "x", run = function(_, found) found { measure = "one", value = 1 } error("stopped", 0) end }' > spec/bench/stops.lua; ETT_PATH=$PWD ett bench stops
# stops: x
  one ... 1 ...
ett: stopped
?1

$ ett bench --nonsense
ett: bench: unknown option '--nonsense'...
?2

$ ett --json
ett: unknown option '--json': options come after the command (`ett COMMAND --help`)
?2

An option that a command would ignore is refused.
$ ett repl --json
ett: repl: unknown option '--json'; `ett repl --help` lists them
?2

$ ett repl now
ett: repl: takes no arguments, got 'now'
?2

$ ett show-example llemma
ett: show-example: no example 'llemma'; did you mean 'llemma_7b'?; `ett list-examples` lists them
?2

$ ett compare --model llama --utilization 1e999
ett: compare: option '--utilization' must be a number, got '1e999'
?2

$ ett optimize --days -1
ett: optimize: option '--days' must be a number above 0, got '-1'
?2

$ ett picture --layers 0
ett: picture: option '--layers' must be a positive integer, got '0'
?2

$ ett spec --help
usage: ett spec FILE ...
...
  --traceback  print where an error was raised

$ ett list clusters >&-
ett: cannot write the output: Bad file descriptor
?1

$ ett list clusters >/dev/full
ett: cannot write the output: No space left on device
?1

One call writes a message; bytes that are no text are printed as numbers.

$ ett predict --model nosuch 2>&1 | dd bs=4096 count=1 status=none
ett: unknown model 'nosuch'; `ett list models` and `ett list architectures` name them all

$ ett predict --model "$(printf 'b\377\302\205é')"
ett: unknown model 'b\xff\x85é'; `ett list models` and `ett list architectures` name them all
?2
