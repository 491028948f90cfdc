--- Launching ranks: a failing mpirun ends in bounded time with a message. The mpirun here is a script.
local command = require "command"
local find = require "ett.base.find"

local usable, why = find.load("samplers", "mpi").available()
if not usable then
  describe("ett.mpirun", function() it("is skipped", function() pending(why) end) end)
  return
end

local folder = command.each_folder(_ENV)

--- What ett.mpirun makes of a launcher that is this script.
local function launch(script)
  command.write(folder, "mpirun", "#!/bin/sh\n" .. script)
  command.shell(("chmod +x '%s/mpirun'"):format(folder))
  command.write(folder, "launch.lua", [[
    local mpirun = require "ett.sampling.mpirun"
    mpirun.patience_seconds = 1
    print("said " .. mpirun.run(2, "list", { what = "a spec", log = "log" }))
  ]])
  local text, status = command.ett(folder, "run launch.lua", ("PATH='%s':\"$PATH\" timeout 300"):format(folder))
  local left = command.shell(("pgrep -f '%s/[m]pirun'"):format(folder))
  assert.equal("", left)
  return (text:gsub("^ett: launch.lua:3: ", "ett: ")), status
end

describe("ett.mpirun", function()
  it("returns the output of the ranks", function()
    local text, status = launch("echo words\n")
    assert.equal("said words\n\n", text)
    assert.equal(0, status)
    assert.is_nil(command.read(folder, "log"))
  end)

  it("waits as long as the ranks are there", function()
    local text = launch("sleep 2.5 & sleep 2.5 & wait\necho words\n")
    assert.equal("said words\n\n", text)
  end)

  it("reports the last line of output", function()
    assert.equal("ett: a spec, 2 ranks: no such thing\n", (launch("echo 'ett: no such thing'; exit 1\n")))
    assert.equal("ett: a spec, 2 ranks: mpirun says: No slots.\n", (launch("echo 'No slots.'; exit 1\n")))
    local unnamed = "Primary job  terminated normally, but 1 process returned\na non-zero exit code. "
      .. "Per user-direction, the job has been aborted."
    assert.equal("ett: a spec, 2 ranks: a rank ended with an error, and mpirun does not say which; the other ranks "
      .. "were ended\n", (launch(("echo '%s'; exit 1\n"):format(unnamed))))
    assert.equal("ett: a spec, 2 ranks: mpirun ended without a message: exit 7\n", (launch("exit 7\n")))
    assert.equal("ett: a spec, 2 ranks: mpirun ended without a message: signal 9\n", (launch("kill -9 $$\n")))
  end)

  it("waits for an mpirun that takes seconds to end after SIGTERM", function()
    command.write(folder, "mpirun",
      "#!/bin/sh\ntrap 'sleep 3; touch cleaned; exit' TERM\ntouch begun\nsleep 100 & wait\n")
    command.shell(("chmod +x '%s/mpirun'"):format(folder))
    command.write(folder, "launch.lua",
      "require('ett.sampling.mpirun').run(2, 'list', { what = 'a spec', log = 'log' })\n")
    local text, status = command.shell(("cd '%s'; PATH=\"$PWD:$PATH\" '%s/bin/ett' run launch.lua & "
      .. "until [ -e begun ]; do sleep 0.05; done; kill $!; wait $!"):format(folder, require("ett.host").prefix))
    assert.matches("^ett: launch.lua:1: terminated\n", text) -- a line of the shell may follow
    assert.equal(143, status)
    assert.equal("", command.read(folder, "cleaned"))
  end)

  it("ends an mpirun that outlives its ranks", function()
    local dies = "echo 'mpirun noticed that process rank 1 with PID 5 on node n exited on signal 9 (Killed).'\n"
    assert.equal("ett: a spec, 2 ranks: rank 1 died: signal 9 (Killed); the other ranks were ended\n",
      (launch(dies .. "exec sleep 100\n")))
    assert.equal("ett: a spec, 2 ranks: mpirun still running 1 s after its ranks exited; killed\n",
      (launch("exec sleep 100\n")))
    -- one that does not listen, with a rank left
    assert.equal("ett: a spec, 2 ranks: mpirun still running 1 s after its ranks exited; killed\n",
      (launch("trap '' TERM\nsleep 100\n")))
  end)
end)
