# An installed tree can be moved: everything is found from where the executable stands. It holds no tests, and what it
# holds can be read by everybody.

$ build=$(dirname "$(dirname "$(readlink -f "$(command -v ett)")")"); umask 022; cmake --install "$build" --prefix "$PWD/first" > log || tail -3 log; mv first second; echo 'local host = require "ett.host"; return { host.root, host.prefix }' > s.lua; cd /; (PATH=$OLDPWD/second/bin:$PATH; ett --version; ett bench literature 2>&1; ett run "$OLDPWD/s.lua" --json | sed "s,$OLDPWD,HERE,"; ett list --quiet operators | grep -x gelu; printf 'require "ett.line"\nrequire "ett.csv" ~= nil' | ett repl; ldd "$OLDPWD"/second/lib/ett/ett/*.so "$OLDPWD/second/bin/ett" | grep -c 'not found'); find "$OLDPWD/second" -name '*_spec.lua' -o -name testing.so -o -name 'oom_shim*'; find "$OLDPWD/second" ! -perm -o=r | head; cd "$OLDPWD/second"; ls bin share/ett
ett ...
ett: bench: no benchmarks found: spec/bench is part of the source tree, not of an installed one
[
  "HERE/second/share/ett",
  "HERE/second"
]
gelu
{ open = function: ... }...
true
0
bin:
ett
.
share/ett:
...
lua
operators
...

# The executable alone names the missing files; a link to it works.

$ cp "$(readlink -f "$(command -v ett)")" alone; ./alone list 2>&1 | sed "s,$(dirname "$PWD"),HERE,"; ln -s "$(readlink -f "$(command -v ett)")" linked; ./linked list --quiet clusters | grep dgx_a100$
ett: cannot read the library at HERE/share/ett (No such file or directory); the executable needs the tree it was built or installed in: link to it, or move the whole tree
dgx_a100
