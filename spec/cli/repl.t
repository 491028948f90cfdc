# The prompt, through a pipe: prints results and no prompts.

$ printf '1 + 1\n_ * 2\n2^40 / 3, 6 / 3, 1 / 0, { 2^40 / 3 }\nx = { b = 1, a = { 1, "two" } }\nx\nfor i = 1, 2 do\n  print(i)\nend\nnil, true\nhelp\n' | ett repl
2
4
366503875925.33	2	inf	{ 3.66504e+11 }
{ a = { 1, "two" }, b = 1 }
1
2
nil	true
Type Lua...
...

# A value may continue on the next line; a fault on the first line does not.

$ printf '1 +\n2\n-\n(\n3)\n1 1\n' | ett repl
3
-3
ett: line 1: unexpected symbol near '1'
?1

# It continues after every fault, and prints each in one line.

$ ETT_MEMORY_LIMIT=128M; export ETT_MEMORY_LIMIT; printf '%s\n' 'error { }' 'error()' 'error "text"' 'local t; t.x = 1' '= 3' 'setmetatable({}, {__tostring = error})' 'local function f() return 1 + f() end f()' 't = {}; while true do t[#t + 1] = ("x"):rep(1e6) .. #t end' 't = nil' 'string.rep = nil' 'print = nil; pcall = nil' 'coroutine.yield()' 'coroutine.wrap(error)(nil)' 'require "nothing"' 'json.decode' 'require("ett.base.error").raise("plan", "pp must divide %d", 32)' '"still here"' | ett repl
ett: {}
ett: nil was raised
ett: prompt:1: text
ett: prompt:1: attempt to index a nil value (local 't')
ett: line 1: unexpected symbol near '='
<table: its __tostring failed>
ett: prompt:1: stack overflow
ett: not enough memory: Lua may use 128 MiB (ETT_MEMORY_LIMIT sets the limit)
ett: attempt to yield from outside a coroutine
ett: nil was raised
ett: prompt:1: module 'nothing' not found; it is not in the script's folder, --path, ETT_PATH or the installed tree
function: ...
ett: pp must divide 32
"still here"
?1

# At a terminal: a history, completion, lines that go on, and Ctrl-C for what runs, a string pattern without end, and
# what is typed. Every key waits for
# what shows that ett is where it is to be: under load a Ctrl-D that comes while a line runs is no end of the input.

$ export HOME=$PWD XDG_STATE_HOME= TERM=xterm
> : > shown
> after() { until tr -d '\r\n' < shown | grep -q -- "$1\$" || [ -e left ]; do sleep 0.05; done; sleep 0.2; shift; printf "$@"; }
> (after '> ' 'abc = { bcd = 1, bce = 2 }\n'; after '2 }> ' 'abc.b\t\t'; after 'bcd  bce.*> abc\.bc' 'd + 40\n'
>  after '41> ' 'print("runs" .. " on") while true do end\n'; after 'runs on' '\003'; after 'interrupted> ' 'print("pattern" .. " runs"); ("a"):rep(60):find(("a*"):rep(12) .. "b")\n'
>  after 'pattern runs' '\003'; after 'interrupted> .*interrupted> ' 'half typed'
>  after 'half typed' '\003'; after 'half typed> ' 'for i = 1, 2 do\nprint("line " .. i) end\n'
>  after 'line 2> ' '\033[A\n'; after 'line 2> .*line 2> ' '\004'; until [ -e left ]; do printf '\004'; sleep 0.5; done) |
>  (timeout 240 script -qefc "ett repl" /dev/null > shown; touch left)
> tr -d '\r' < shown; grep -c . .local/state/ett/history
ett 0.1.0; `help` explains the input
...
bcd  bce
...
41
...
...ett: interrupted
...
...ett: interrupted
...
...half typed
...
line 1
line 2
...
line 1
line 2
...
6

# A script's lines work as they are, without their `require`.

$ printf '%s\n' 'm = ett.model.new("llama", { layers = 4, hidden = 1024, heads = 8, vocab = 32000 })' 'ett.estimate { model = m, cluster = "perlmutter", plan = { micro_batches = 2, seq = 512 } }' | ett repl | head -2
llama (... M parameters) on 1 x NVIDIAA100-SXM4-80GB (perlmutter)
pp 1, tp 1, dp 1, micro-batch 1 x 2, sequence 512, bf16, 1f1b, stack plain

# Values that a file may hold are shown without control and invisible characters.

$ printf '%s\n' '{ name = "a\u{9b}\u{202e}b" }' | ett repl
{ name = "a\x9b\u{202e}b" }

# Commands of the shell are named as such; a variable with a comment is none.

$ printf '%s\n' 'predict --model llama3-8b' 'ett predict --model llama3-8b tp=2' 'ett list models' 'predict' 'list = 3' 'list --model' 'search --a comment of a module' | ett repl
ett: commands are typed in the shell, not at this prompt; `exit` leaves it
ett: commands are typed in the shell, not at this prompt; `exit` leaves it
ett: commands are typed in the shell, not at this prompt; `exit` leaves it
ett: commands are typed in the shell, not at this prompt; `exit` leaves it
3
ett: commands are typed in the shell, not at this prompt; `exit` leaves it
?1

# A string ends with its line, unless a backslash continues it; a fault at the end of the input is named there.

$ printf '%s\n' "'abc" '"a\' 'b"' '"a\z' '  b"' 'f(1' '+ 1' ')' '1 +' | ett repl
ett: line 1: unfinished string near <eof>
"a\nb"
"ab"
ett: prompt:1: attempt to call a nil value (global 'f')
ett: line 1: unexpected symbol near <eof>
?1

# The example of `help` runs.

$ echo help | ett repl | grep '^  ' | ett repl | grep -o '^step time'
step time

# `help` explains locals; its words may be calls.

$ printf '%s\n' 'help()' 'exit()' '1' | ett repl | grep -c 'A `local` is lost after its input\|^1$'
1

$ printf '%s\n' 'quit( )' '1' | ett repl

# The library prints as the list of its modules.

$ echo ett | ett repl
ett: architecture, calibrate, ... yaml
