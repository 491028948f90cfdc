--- `ett submit` on a real Slurm: one machine as four virtual nodes, started here.
local host = require "ett.host"
local quote = require("ett.base.shell").quote
local sample = require "ett.sample"

local function has(command) return os.execute(("command -v %s >/dev/null 2>&1"):format(command)) end
local function run(command)
  local pipe = io.popen(command .. " 2>&1")
  local text = pipe:read("a")
  return text, pipe:close()
end

local missing
for _, command in ipairs { "slurmctld", "slurmd", "sbatch", "srun", "mpirun" } do
  if not has(command) then missing = missing or command end
end
if run("id -u"):match("%d+") ~= "0" then missing = missing or "root (slurmd starts jobs as other users)" end
if not pcall(require, "ett.dist") then missing = missing or "the MPI back end" end
if missing then
  describe("ett submit", function()
    it("needs a Slurm to test", function() pending("not here: " .. missing .. " (slurm-wlm, openmpi-bin)") end)
  end)
  return
end

local folder, started

local function write(name, text) return require("ett.base.folder").write(folder .. "/" .. name, text) end

local function start()
  folder = os.tmpname()
  os.remove(folder)
  local name = run("hostname -s"):gsub("%s+$", "")
  os.execute(("mkdir -p %s/state %s/log %s/spool"):format(folder, folder, folder))
  local port = 26000 + tonumber((run "echo $PPID")) % 3000 -- this process
  local lines = { "ClusterName=ettspec", ("SlurmctldHost=%s(127.0.0.1)"):format(name),
    ("SlurmctldPort=%d"):format(port), "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/none", "CredType=cred/none",
    "MpiDefault=pmix", ("TmpFS=%s/tmp/%%n"):format(folder), "ProctrackType=proctrack/pgid", "TaskPlugin=task/none",
    "SwitchType=switch/none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU",
    "SchedulerType=sched/builtin",
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0", "ReturnToService=2",
    ("SlurmctldPidFile=%s/slurmctld.pid"):format(folder), ("SlurmdPidFile=%s/slurmd.%%n.pid"):format(folder),
    ("SlurmdSpoolDir=%s/spool/%%n"):format(folder), ("StateSaveLocation=%s/state"):format(folder),
    ("SlurmctldLogFile=%s/log/ctld.log"):format(folder), ("SlurmdLogFile=%s/log/slurmd.%%n.log"):format(folder),
    "SlurmdDebug=debug",
    "AccountingStorageType=accounting_storage/none", "JobAcctGatherType=jobacct_gather/none",
    "PropagateResourceLimits=NONE", "SlurmdParameters=config_overrides" }
  for n = 1, 4 do
    os.execute(("mkdir -p %s/tmp/n%d %s/spool/n%d"):format(folder, n, folder, n))
    lines[#lines + 1] = ("NodeName=n%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=2 RealMemory=1000 State=UNKNOWN")
      :format(n, name, port + n)
  end
  lines[#lines + 1] = "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES"
  lines[#lines + 1] = "PartitionName=closed Nodes=ALL MaxTime=INFINITE State=DOWN"
  write("slurm.conf", table.concat(lines, "\n") .. "\n")
  local export = ("export SLURM_CONF=%s/slurm.conf; "):format(folder)
  os.execute(export .. "slurmctld -c >/dev/null 2>&1")
  for n = 1, 4 do os.execute(export .. ("slurmd -c -N n%d >/dev/null 2>&1"):format(n)) end
  local until_ = sample.now() + 30
  repeat
    local text = run(export .. "sinfo -h -t idle -o %D")
    if tonumber(text:match("%d+")) == 4 then return export end
    sample.pause(0.2)
  until sample.now() > until_
  return nil
end

local function stop()
  for _, name in ipairs { "slurmd.n1", "slurmd.n2", "slurmd.n3", "slurmd.n4", "slurmctld" } do
    local file = io.open(("%s/%s.pid"):format(folder, name))
    if file then
      local pid = file:read("n")
      file:close()
      if pid then os.execute(("kill %d 2>/dev/null"):format(pid)) end
    end
  end
  sample.pause(0.5)
  os.execute(("rm -rf '%s'"):format(folder))
end

describe("ett submit on four virtual nodes", function()
  local began
  setup(function()
    started = start()
    if not started then return end
    -- Waits for its job beside the tests that follow; the last one reads what it said.
    local file = write("never.lua", [[
      return { name = "never", samples = { { operator = "gelu", shapes = { tokens = 8, width = 8 } } } }
    ]])
    began = os.time()
    os.execute(("(%s '%s/bin/ett' submit '%s' --out '%s/never' --wait --partition closed; echo \"status $?\") "
      .. "> '%s/never.txt' 2>&1 &"):format(started, host.prefix, file, folder, folder))
  end)
  teardown(stop)

  local function submit(file, arguments)
    return run(("%s export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; '%s/bin/ett' submit '%s' "
      .. "--out '%s/out' --wait %s"):format(started, host.prefix, file, folder, arguments))
  end

  it("splits an operator campaign over the nodes, each row once", function()
    if not started then return pending("Slurm did not start on this machine") end
    local file = write("operators.lua", [[
      return { name = "operators", max_repeats = 1, min_repeats = 1, budget_seconds = 0.001, cold_bytes = 1 << 20,
        visits = 1, samples = { {
        operator = "gelu", shapes = { tokens = { start = 1, stop = 48 }, width = 8 } } } }
    ]])
    local text = submit(file, "--nodes 4 --ranks 1")
    assert.matches("job %d+: ", text)
    local log = run(("cat '%s'/out/slurm-*.log '%s'/out/*.csv"):format(folder, folder))
    assert.matches("48 measured, 0 failed", log)
    local seen, rows = {}, 0
    for key in log:gmatch("\n(%d+,8),") do
      assert.is_nil(seen[key])
      seen[key], rows = true, rows + 1
    end
    assert.equal(48, rows)
    -- The fences inside MPI_Init: a tree's does not wait on so few nodes, and now and then a rank dies of it.
    local fences = run(("grep -hE 'pmixp_coll_contrib_local.*COLL_FENCE' '%s'/log/slurmd.*.log"):format(folder))
    assert.matches("COLL_FENCE_RING", fences)
    assert.not_matches("COLL_FENCE_TREE", fences)
  end)

  it("forms nodes x ranks topologies for collectives from one allocation", function()
    if not started then return pending("Slurm did not start on this machine") end
    local file = write("wires.lua", [[
      return { name = "wires", backend = "mpi", max_repeats = 6, min_repeats = 3, budget_seconds = 0.005, samples = {
        { collective = "all_reduce", in_place = true, shapes = { shape = { 64, 1024 } } } } }
    ]])
    submit(file, "--nodes 2 --ranks 2")
    local names = run(("cd '%s/out' && ls *.csv"):format(folder))
    for _, topology in ipairs { "1_2", "2_1", "2_2" } do
      assert.matches("all_reduce_fp32_" .. topology .. "%.csv", names)
    end
  end)

  it("--wait reports a failed job and the file of its output", function()
    if not started then return pending("Slurm did not start on this machine") end
    local file = write("fails.lua", [[
      return { name = "fails", backend = "cpu", precision = "fp16", samples = { { operator = "gelu",
        shapes = { tokens = 8, width = 8 } } } }
    ]])
    local text = submit(file, "2>&1; echo \"status $?\"")
    assert.matches("ett: job %d+ ended as FAILED: exit code 2:0, its output is in %S+slurm%-%d+%.log\n", text)
    assert.matches("status 1\n", text)
    local log = text:match("is in (%S+)")
    assert.matches("the back end 'cpu' measures fp32, not 'fp16'", (run("cat " .. log)))
  end)

  it("a folder with spaces, percents and shell words is one folder", function()
    if not started then return pending("Slurm did not start on this machine") end
    local file = write("a $(touch PWN) 50%j 'x'.lua", [[
      return { name = "one", max_repeats = 1, min_repeats = 1, budget_seconds = 0.001, cold_bytes = 1 << 20,
        visits = 1, samples = { {
        operator = "gelu", shapes = { tokens = 1, width = 8 } } } }
    ]])
    local out = folder .. "/o $(touch PWN) 50% 'x'"
    local text = run(("%s export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; cd '%s'; '%s/bin/ett' "
      .. "submit %s --out %s --wait"):format(started, folder, host.prefix, quote(file), quote(out)))
    local listing = run("ls " .. quote(out))
    assert.matches("gelu_fp32.csv", listing, 1, true)
    assert.matches("slurm%-%d+%.log", listing, text)
    assert.is_nil(run(("find '%s' -name PWN"):format(folder)):match("PWN"))
  end)

  it("a search gives the same bytes under srun, and as the job of a script, as in one process", function()
    if not started then return pending("Slurm did not start on this machine") end
    local ett = ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 %s"):format(
      quote(host.prefix .. "/bin/ett"))
    local words = "search --model llama layers=8 hidden=1024 heads=8 vocab=32000 --cluster dgx_h100 --devices 16 "
      .. "--global-batch 64 --seq 1024 --fix cp=1 --fix schedule=1f1b --json 2>/dev/null"
    local one = run(("cd '%s' && %s %s"):format(folder, ett, words))
    assert.matches('"step_seconds"', one)
    local two = run(("%s cd '%s' && srun -n 2 env %s %s"):format(started, folder, ett, words))
    assert.equal(one, two)
    local file = write("search.lua", [[
      local ett = require "ett"
      local model = ett.model.new("llama", { layers = 8, hidden = 1024, heads = 8, vocab = 32000 })
      local found = ett.search { model = model, cluster = "dgx_h100", devices = 16, keep = 1,
        plan = { seq = 1024, global_batch = 64, cp = 1, schedule = "1f1b" } }
      return ("best %.9g"):format(found.rows[1].step_seconds)
    ]])
    local text = submit(file, "--nodes 2 --ranks 1")
    assert.matches("job %d+", text)
    local best = run(("grep -h best '%s'/out/slurm-*.log"):format(folder))
    assert.equal(("best %.9g\n"):format(tonumber(one:match '"step_seconds": *([%d.e+-]+)')), best)
  end)

  it("--wait reports soon why a job can never start", function()
    if not started then return pending("Slurm did not start on this machine") end
    local text
    repeat
      sample.pause(0.2)
      text = run(("cat '%s/never.txt'"):format(folder))
    until text:find "status" or os.time() - began > 120
    assert.matches("ett: job %d+ does not start: Slurm's reason is Partition%a+; `scancel %d+` removes it\n", text)
    assert.matches("status 1\n", text)
    run(started .. "scancel " .. text:match("scancel (%d+)"))
  end)

  it("does not queue a campaign that does not load", function()
    local file = write("broken.lua", "return { name = 'x', samples = { { operator = 'no_such' } } }")
    local text = run(("'%s/bin/ett' submit '%s' --out '%s/out'"):format(host.prefix, file, folder))
    assert.matches("missing field 'shapes'", text)
  end)
end)
