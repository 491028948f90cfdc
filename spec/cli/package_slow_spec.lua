--- The Debian package: its programs run from the folder where it is unpacked.
local command = require "command"
local host = require "ett.host"

local function missing()
  if not io.open(host.prefix .. "/lib/ett/libett.so") then return "no package is made with sanitizers" end
  for _, program in ipairs { "cpack", "dpkg-deb", "dpkg-shlibdeps" } do
    if not os.execute(("command -v %s >/dev/null"):format(program)) then return "no " .. program end
  end
end

it("the Debian package holds ett, its pages and completions, and names the libraries that it needs", function()
  local reason = missing()
  if reason then pending(reason) return end
  local folder = command.folder()
  finally(function() command.remove(folder) end)
  local output, status = command.shell(("cd '%s' && cpack -G DEB -B '%s/made' && cd '%s' && dpkg-deb -x made/*.deb "
    .. "tree && dpkg-deb -f made/*.deb Depends"):format(host.prefix, folder, folder))
  assert.equal(0, status, output)
  for _, name in ipairs { "liblua5%.4%-0", "lua%-cjson", "lua%-argparse", "lua%-filesystem", "libxgboost" } do
    assert.matches(name, output)
  end
  local predicted = "predict --model llama3-8b --cluster dgx_h100 seq=4096 tp=4 micro_batches=8 --quiet"
  output, status = command.shell(("cd '%s' && tree/usr/bin/ett %s"):format(folder, predicted))
  assert.equal(0, status, output)
  assert.equal((command.ett(folder, predicted)), output)
  assert.matches("\n%.SH NAME\nett\\%-predict \\%- predict one training step\n",
    (command.read(folder, "tree/usr/share/man/man1/ett-predict.1")))
  assert.matches("\n%.BR ett\\%-search %(1%)\nfind the best plan",
    (command.read(folder, "tree/usr/share/man/man1/ett.1")))
  for _, page in ipairs { "README.md", "ACCURACY.md", "CHANGELOG.md" } do
    assert.equal(assert(command.read(host.root, page)), (command.read(folder, "tree/usr/share/doc/ett/" .. page)))
  end
  for _, words in ipairs { "Apache License", "Lua.org, PUC%-Rio", "BSD 2%-Clause License\n\n" } do
    assert.matches(words, (command.read(folder, "tree/usr/share/doc/ett/NOTICE")))
  end
  output = command.shell(("cd '%s' && bash -c '. tree/usr/share/bash-completion/completions/ett; "
    .. "COMP_WORDS=(ett predict --clu); COMP_CWORD=2; _ett; echo \"${COMPREPLY[@]}\"'"):format(folder))
  assert.equal("--cluster\n", output)
  output = command.shell(("cd '%s' && PATH=$PWD/tree/usr/bin:$PATH bash -c '"
    .. ". tree/usr/share/bash-completion/completions/ett; "
    .. "for words in \"--model llama3-7\" \"--cluster dgx_h\" \"--model --js\"; do COMP_WORDS=(ett predict $words); "
    .. "COMP_CWORD=3; _ett_or_name; echo \"${COMPREPLY[@]}\"; done'"):format(folder))
  assert.equal("llama3-70b\ndgx_h100 dgx_h200 dgx_h800\n\n", output)
  output, status = command.shell(("cd '%s' && PYTHONPATH=tree/usr/lib/python3/dist-packages ETT_PREFIX=$PWD/tree/usr "
    .. "python3 -B -c 'import ett; print(len(ett.list(\"clusters\")) > 10)'"):format(folder))
  assert.equal(0, status, output)
  assert.equal("True\n", output)
end)
