# What `ett run` does with scripts: options, results, faults.

$ cat > s.lua <<'X'
> #!/usr/bin/env -S ett run
> --- Squares a number.
> -- A second line.
> local script = require "ett.cli.script"
> local o = script.options { n = { "count", default = 3, help = "what is squared" }, who = "string?" }
> return { square = o.n * o.n, who = o.who }
> X
> ett run s.lua; ett run s.lua n=4k --json; ett run s.lua who=007 --quiet; chmod +x s.lua; ./s.lua n=5
# ett 0.1.0, s.lua: n=3
{ square = 9 }
{
  "square": 16000000
}
# ett 0.1.0, s.lua: n=5
{ square = 25 }

$ printf -- '--- Squares a number.\nlocal o = require("ett.cli.script").options { n = { "count", default = 3, help = "what is squared" } }\nerror("must not run")\n' > s.lua; ett run s.lua --help
usage: ett run s.lua [NAME=VALUE ...] [--json] [--quiet]
.
Squares a number.
.
options of the script:
  n=COUNT  what is squared (default 3)
.
options:
...

$ printf 'local o = require("ett.cli.script").options { hidden = "count", tp = "degree" }\n' > s.lua; ett run s.lua hiden=3 tp=x
ett: s.lua:1: unknown option 'hiden'; did you mean 'hidden'?; missing option 'hidden' (a positive integer); option 'tp' must be a positive integer, got 'x'
?2

$ printf 'local ett = require "ett"\nlocal o = ett.options { tp = "degree?", dp = { "degree", default = 4 } }\nprint(o.tp, ett.plan.schema.pp ~= nil and o.dp)\nreturn o.tpp\n' > s.lua; ett run s.lua
nil	4
ett: s.lua:4: unknown option 'tpp'; did you mean 'tp'?; known are dp, tp
?1

$ echo 'return 1' > s.lua; ett run s.lua n=3
ett: s.lua declares no options, got 'n'
?2

$ echo 'return 1' > s.lua; ett run s.lua nonsense
ett: s.lua: expected NAME=VALUE, got 'nonsense'
?2

$ ett run
ett: run: missing SCRIPT.lua; usage: ett run SCRIPT.lua [NAME=VALUE ...]
?2

$ ett run missing.lua
ett: cannot read 'missing.lua': no such file
?1

$ ett run .
ett: cannot read '.': it is a folder
?1

# Garbage is collected for the first time after 4 MiB: a short command needs none.

$ printf 'local weak = setmetatable({}, { __mode = "k" })\nweak[{}] = 1\nfor _ = 1, 20000 do local _ = { 1 } end\nreturn next(weak) ~= nil\n' > s.lua; ett run s.lua
# ett 0.1.0, s.lua
true

# Globals, syntax, faults: the line, and no stack unless it is asked for.

$ printf 'local x = 1\ny = x\n' > s.lua; ett run s.lua
ett: s.lua:2: assignment to undeclared global 'y'; write 'local y'
?1

$ echo 'leak = 1' > m.lua; echo 'require "m"' > s.lua; ett run s.lua
ett: s.lua:1: assignment to undeclared global 'leak'; write 'local leak'
?1

$ printf 'local x = \n= 3\n' > s.lua; ett run s.lua
ett: s.lua:2: unexpected symbol near '='
?1

$ printf 'local t\nreturn t.x\n' > s.lua; ett run s.lua
ett: s.lua:2: attempt to index a nil value (local 't')
?1

$ printf 'local function f()\n  error "boom"\nend\nf()\n' > s.lua; ett run s.lua --traceback
ett: s.lua:2: boom
stack traceback:
...
	s.lua:4: in main chunk
...
?1

$ printf '\033Lua' > s.lua; ett run s.lua
ett: s.lua: attempt to load a binary chunk (mode is 't')
?1

# Endless recursion and endless memory are faults like others.

$ printf 'local function f() return 1 + f() end\nreturn f()\n' > s.lua; ett run s.lua
ett: s.lua:1: stack overflow
?1

$ printf 'local function f(s) return (s:gsub(".", f)) end\nreturn f "x"\n' > s.lua; ett run s.lua
ett: s.lua:1: ...stack overflow...
?1

$ printf 'local t = {}\nwhile true do t[#t + 1] = ("x"):rep(100000) .. #t end\n' > s.lua; ETT_MEMORY_LIMIT=64M ett run s.lua
ett: s.lua: not enough memory: Lua may use 64 MiB (ETT_MEMORY_LIMIT sets the limit)
?1

$ echo 'return ("x"):rep(1 << 30)' > s.lua; ETT_MEMORY_LIMIT=64M ett run s.lua
ett: s.lua: not enough memory: Lua may use 64 MiB (ETT_MEMORY_LIMIT sets the limit)
?1

$ ETT_MEMORY_LIMIT=lots ett --version
ett: ETT_MEMORY_LIMIT must be a size of at least 1M, such as 512M or 4G
?1

# require searches the script's folder, ETT_PATH and the installed roots: not the working directory,
# not LUA_PATH.

$ mkdir a b; echo 'return "from a"' > a/m.lua; echo 'return require "m"' > a/s.lua; echo 'return "cwd"' > m.lua; ett run a/s.lua
# ett 0.1.0, s.lua
from a

$ mkdir a; echo 'return require "m"' > a/s.lua; echo 'return "cwd"' > m.lua; LUA_PATH='./?.lua' ett run a/s.lua
ett: s.lua:1: module 'm' not found; it is not in the script's folder, --path, ETT_PATH or the installed tree
?1

$ mkdir a p; echo 'return require "m"' > a/s.lua; echo 'return "from ETT_PATH"' > p/m.lua; ETT_PATH=$PWD/p ett run a/s.lua --quiet; ETT_PATH=$PWD/p ett run a/s.lua --json
"from ETT_PATH"

$ echo 'return 1' > s.lua; ETT_PATH=p ett run s.lua
ett: ETT_PATH: 'p' must be an absolute folder
?2

# Output that cannot be written is a fault.

$ echo 'for i = 1, 1e5 do print(i) end' > s.lua; ett run s.lua > /dev/full
ett: cannot write the output: No space left on device
?1

$ ett --version >&-
ett: cannot write the output: Bad file descriptor
?1

# Ctrl-C, also in a coroutine and in code that catches every error. It is sent once the script runs: a signal while ett
# starts would end it without a message.

$ press() { until [ -e begun ]; do sleep 0.05; done; sleep 0.2; kill -INT $!; }; echo 'io.open("begun", "w"):close()' > s.lua; cp s.lua t.lua; cp s.lua u.lua
> echo 'while true do end' >> s.lua; ett run s.lua & press; wait $!; echo "status $?"; rm begun
> echo 'coroutine.wrap(function() while true do end end)()' >> t.lua; ett run t.lua & press; wait $!; echo "status $?"; rm begun
> echo 'while true do pcall(function() while true do end end) io.open("caught", "w"):close() end' >> u.lua; ett run u.lua & press; until [ -e caught ]; do sleep 0.05; done; sleep 0.3; kill -INT $!; wait $!; echo "status $?"
ett: s.lua:2: interrupted
status 130
ett: t.lua:2: interrupted
status 130
status 130

# A zero byte does not end the message.

$ printf 'error("a\\0b\\1c")' > fault.lua; ett run fault.lua
ett: fault.lua:1: a\x00b\x01c
?1

What is not a string is shown as what it holds.
$ echo 'error { 1, kind_of = "mine" }' > fault.lua; ett run fault.lua; echo 'error()' > fault.lua; ett run fault.lua
ett: fault.lua:1: { 1, kind_of = "mine" }
ett: fault.lua:1: nil was raised
?1

$ printf 'local raised = { name = "raised", summary = "s", schema = { tokens = "count" } }\nfunction raised.shape(c) return { tokens = c.seq } end\nfunction raised.flops() error {} end\nfunction raised.bytes() return 1 end\nreturn raised\n' > raised.lua; ett predict --path . --model llama encoder_function_list=raised layers=2 hidden=64 heads=2 vocab=100 seq=64 micro_batches=1
ett: a table was raised, not a message; --traceback shows where
?1

$ echo 'require("ett").options { n = { "count", default = 2 } }' > own.lua; ett run own.lua --help
usage: ett run own.lua [NAME=VALUE ...] [--json] [--quiet]
.
options of the script:
  n=COUNT  (default 2)
.
options:
  --json        print the returned value as JSON
  --quiet       do not print the returned value
  --csv         print tables as CSV; with several tables, a line # NAME begins each
  --table NAME  with --csv: print only this table (all: every table)
  --help        print this help
  --traceback   print where an error was raised

A script that returns the results of a failed read fails.
$ echo 'return require("ett.json").read "nowhere.json"' > s.lua; ett run s.lua
ett: s.lua: cannot read 'nowhere.json': no such file or directory
?1

# A user's operator takes the longer time of its FLOPs and of its bytes, also on clusters with kernel tables.
# Products and attention without the dimensions of a kernel are timed by both.

$ own() { printf 'local op = { name = "own", summary = "x", family = "%s", schema = { n = "count" } }\nfunction op.shape(c) return { n = c.micro_batch * c.seq * c.ffn } end\nfunction op.flops(s) return %s * s.n end\nfunction op.bytes(s) return 4.0 * s.n end\nreturn op\n' "$1" "$2" > own.lua; ett predict --cluster dgx_h100 --model llama --path . layers=4 hidden=2048 heads=16 ffn=8192 vocab=32000 encoder_function_list=rms_norm,own seq=2048 micro_batches=4 --csv --table operators | grep '^own'; }; for f in elementwise gemm bmm attention; do own $f 2.0; done; own elementwise 2e4 > slow; own elementwise 4e4 | cat slow - | awk -F, 'NR == 1 { first = $3 } NR == 2 { print (1.99 < $3 / first), ($3 / first < 2) }'; cat slow
own,...,calibrated,...
own,...,assumed,...
own,...,assumed,...
own,...,assumed,...
1 1
own,operator,...,roofline of the device's rates,...,assumed,...

Options of a script have no dashes; a misspelt option of `ett run` is named.
$ echo 'print(require("ett").options { micro_batch = "count" }.micro_batch)' > s.lua; ett run s.lua --micro-batch 3; ett run s.lua --jsn; ett run s.lua micro_batch=3
ett: run: unknown option '--micro-batch'; options of a script have no dashes: micro_batch=VALUE
ett: run: unknown option '--jsn'; did you mean '--json'?
3

# At the end every finaliser runs, the last first, and files are written. It is so after an error too.

$ printf 'local file = io.open("end.txt", "w")\nlocal function at_end(text) return setmetatable({}, { __gc = function() file:write(text, ".") end }) end\nlocal kept = { at_end "first", at_end "last" }\nerror(kept[3])\n' > s.lua; ett run s.lua 2> /dev/null; cat end.txt; sed -i '$d' s.lua; ett run s.lua; cat end.txt
last.first.last.first.

$ printf 'setmetatable({}, { __gc = function() os.exit(3, true) end })\nprint "end"\n' > s.lua; ett run s.lua
end
?3
