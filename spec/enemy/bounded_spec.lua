--- Inputs without an end, or far larger than what they stand for: a stated limit answers, or a line on the terminal
--- shows how far the work is, and Ctrl-C ends it.
local command = require "command"
local needs = require "needs"
local refused = require("refusal").refused
local sweep = require "ett.search.sweep"

local folder
setup(function() folder = command.folder() end)
teardown(function()
  command.remove(folder)
  require("refusal").clean()
end)

local function has(program)
  if select(2, command.shell("command -v " .. program)) == 0 then return true end
  pending(program .. " is not installed")
end

local small = "--model gpt layers=2 hidden=256 heads=4 vocab=1000 seq=128 "

describe("a file without an end", function()
  it("is refused at the limit of its kind", function()
    local most = "'/dev/zero' is larger than the limit of 16777216 bytes for its kind"
    refused("predict --model /dev/zero seq=128", most)
    refused("predict --config /dev/zero", most)
    refused("predict --megatron-args /dev/zero", most)
    refused("cluster add-curve a.lua /dev/zero", "'/dev/zero' is larger than the limit of 67108864 bytes for its kind")
    refused("run /dev/zero", "zero:1: unexpected symbol")
  end)

  it("is refused as a table: a pipe is named as a pipe", function()
    assert.equal(0, (select(2, command.shell("mkfifo " .. folder .. "/pipe"))))
    refused("fit " .. folder .. "/pipe",
      ("fit: cannot read '%s/pipe': a table must be a file or be in a folder, found a named pipe"):format(folder))
    refused("trace " .. folder .. "/pipe", ("cannot read '%s/pipe': a trace must be a file or a folder, not a "
      .. "pipe or device; files that end in .gz or .zst need no unpacking"):format(folder))
  end)

  it("of a trace is refused at ETT_MEMORY_LIMIT", function()
    local event = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5,"dur":1},'
    command.write(folder, "rank0.json", '{"traceEvents":[' .. event:rep(500000) .. "{}]}")
    local output, status = command.ett(folder, "trace rank0.json", "ETT_MEMORY_LIMIT=16M")
    assert.same({ "ett: the trace needs more than 16 MB of memory; ETT_MEMORY_LIMIT=16G sets another limit\n", 1 },
      { output, status })
    os.remove(folder .. "/rank0.json")
  end)

  it("of a trace that is decompressed as a whole is refused there, too", function()
    command.shell(("cd %s; mkdir run; (printf '\\n\\v\\022\\t/host:CPU'; head -c 200000000 /dev/zero) "
      .. "| gzip -1 > run/host.xplane.pb.gz"):format(folder))
    local output, status = command.ett(folder, "trace run", "ETT_MEMORY_LIMIT=64M")
    assert.same({ "ett: the trace needs more than 67 MB of memory; ETT_MEMORY_LIMIT=16G sets another limit\n", 1 },
      { output, status })
    command.remove(folder .. "/run")
  end)

  it("with thousands of files takes time in proportion to their number", function()
    local seconds = {}
    for _, count in ipairs { 300, 3000 } do
      command.shell(("mkdir %s/many; cd %s/many; for i in $(seq %d); do echo '{\"traceEvents\":[]}' >rank$i.json; done")
        :format(folder, folder, count))
      local output = command.shell(("cd '%s'; bash -c \"TIMEFORMAT='took %%U'; time '%s/bin/ett' trace many "
        .. "device_time\""):format(folder, require("ett.host").prefix))
      assert.matches(("\n +%d +0 +0 +0\n"):format(count), output)
      seconds[count] = tonumber(output:match "took ([%d.]+)") -- of processors
      command.remove(folder .. "/many")
    end
    local times = seconds[3000] / math.max(0.01, seconds[300])
    assert.is_true(times < 40, ("%.0f times as long"):format(times)) -- in proportion to the square: 100 times
  end)

  it("is passed over among files that are found by name, and named among samples", function()
    command.shell(("cd %s && mkdir -p own/operators s && mkfifo own/operators/zz.lua s/D_gelu_fp16.csv"):format(folder))
    local output, status = command.ett(folder, "list operators --path own")
    assert.equal(0, status, output)
    assert.is_nil(output:find("zz", 1, true))
    refused(("predict --path %s/own --model gpt seq=128 layers=2 hidden=256 heads=4 vocab=1000 micro_batches=1 "
      .. "encoder_function_list=zz"):format(folder), "^gpt: .*unknown operator 'zz'")
    refused(("fit %s/s"):format(folder),
      ("expected a sample table at '%s/s/D_gelu_fp16.csv', found a named pipe; move it away"):format(folder))
  end)

  it("of Nsight with one endless name is refused before the name is read", function()
    if not has "sqlite3" then return end
    local output, status = command.shell(([[sqlite3 %s/big.sqlite "CREATE TABLE StringIds (id, value TEXT);
      CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, demangledName);
      INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 1, 0, 7, 1);
      INSERT INTO StringIds VALUES (1, zeroblob(17000000));"]]):format(folder))
    assert.equal(0, status, output)
    refused(("trace %s/big.sqlite"):format(folder),
      ("'%s/big.sqlite' is not a trace: one of its texts is longer than 16777216 bytes"):format(folder))
  end)
end)

describe("a launch script", function()
  it("whose variables double with each line is refused", function()
    for first, line in pairs { ["A=xx"] = "A=$A$A", ["B=1"] = "A=$A$A", ["A=x "] = "A=${A:-x}${A}",
      ["A=xy"] = 'X="$A $A"; A="$X"', ["A=1"] = "A=$A$((A))$A" } do
      require("refusal").write("d.sh", first .. "\n" .. (line .. "\n"):rep(60) .. "torchrun x.py --num-layers 4\n")
      refused("predict --megatron-args d.sh", "d.sh: the variables of the script expand to more than 4 MiB")
    end
  end)
end)

describe("a sweep of many plans", function()
  local many = "sweep --cluster dgx_h100 " .. small .. "dp=1..1024 micro_batches=1..4096 zero=0,1,2,3 "
    .. "overlap_gradients=true,false overlap_parameters=true,false bucket_bytes=1e6,1e7,1e8,1e9,1e10,1e11"

  it("keeps the rows that it prints, whatever their number", function()
    local output, status = command.ett(folder, many, "ETT_MEMORY_LIMIT=16M")
    assert.equal(0, status, output)
    assert.matches("^gpt on dgx_h100: 13728 plans evaluated", output)
    assert.matches("and 13708 more", output)
    output, status = command.ett(folder, many .. " --json", "ETT_MEMORY_LIMIT=16M")
    assert.same({ "ett: not enough memory: Lua may use 16 MiB (ETT_MEMORY_LIMIT sets the limit)", 1 },
      { output:match "^[^\n]*", status })
  end)

  it("has the same best rows as one that keeps all", function()
    local model = require("ett.model").new("llama", { layers = 8, hidden = 512, heads = 8, vocab = 1000 })
    for _, objective in ipairs { "step_seconds", "tokens_per_second", "memory_bytes" } do
      local given = { model = model, cluster = "perlmutter", profile = false, objective = objective,
        plan = { seq = 512 }, over = { dp = { 1, 2, 4, 8, 16, 32 }, tp = { 1, 2, 4, 8 }, pp = { 1, 2, 4, 8 },
          micro_batches = { 8, 16, 24, 32, 40, 48 }, zero = { 0, 1 }, sequence_parallel = { true, false } } }
      local all = sweep.new(given)
      assert.is_true(#all.rows > 1014)
      given.keep = 7
      local kept = sweep.new(given)
      assert.same(table.move(all.rows, 1, 7, 1, {}), kept.rows)
      assert.same({ all.evaluated, all.refused }, { kept.evaluated, kept.refused })
    end
  end)

  it("shows on a terminal how far it is, and ends at Ctrl-C", function()
    if not has "script" then return end
    local tokens = {}
    for i = 1, 40 do tokens[i] = ("%de9"):format(i) end -- too many plans to end before the signal
    local words = many .. " recompute=none,full,selective micro_batch=1..1024 tokens=" .. table.concat(tokens, ",")
    local output = command.shell(("cd %s; script -qefc 'echo $$ >pid; exec %s/bin/ett %s' /dev/null >shown & "
      .. "until grep -q ' of 18120960 plans' shown 2>/dev/null; do sleep 0.1; done; kill -INT $(cat pid); wait; "
      .. "cat shown"):format(folder, require("ett.host").prefix, words))
    assert.matches("\r\27%[K%d+ of 18120960 plans", output)
    assert.matches("ett: interrupted", output)
  end)
end)

describe("a search that is ended by a signal", function()
  it("says that its plan is not the optimum, in its output and in its status", function()
    local words = "search --model llama3-8b --cluster dgx_h100 --devices 64 --global-batch 512 --seq 8192 "
      .. "--vary dtype=all --exhaustive --top 20" -- its first plan takes a small part of its time
    local ticks = 40 -- hundredths of a second of processor time until the signal
    for _, case in ipairs { { "INT", 130, "", "^interrupted, the best so far: " },
      { "TERM", 143, "--html x.html --journal j", "^interrupted, the best so far: " },
      { "TERM", 143, "--json", '"interrupted": true' }, { "TERM", 143, "--csv", "^best_percent," },
      { "INT", 130, "--quiet", "^seq=" }, { "TERM", 143, "--export torchtitan", "^#" } } do
      local signal, status, option, mark = table.unpack(case)
      local output, ended
      while true do
        output, ended = command.shell(([[cd '%s'; '%s/bin/ett' %s %s 2>err & p=$!
          until awk '$3 == "Z" || $14 >= %d { over = 1 } END { exit !over }' /proc/$p/stat; do sleep 0.05; done
          kill -%s $p; wait $p]]):format(folder, require("ett.host").prefix, words, option, ticks, signal))
        -- A slow machine had no plan yet, or no handler of signals: then the shell writes "Terminated".
        if output ~= "" and output ~= "Terminated\n" or ticks > 10000 then break end
        ticks = 2 * ticks
      end
      assert.equal(status, ended, option)
      assert.matches(mark, output)
      assert.is_nil(output:find(" 0 layouts", 1, true), output)
      assert.matches(("ett: search: interrupted: the plan is the best so far, not the optimum%s\n$"):format(
        option:find "journal" and "; the same command continues from the journal" or ""), command.read(folder, "err"))
    end
    local page = command.read(folder, "x.html")
    assert.matches('"interrupted":true', page, 1, true)
  end)
end)

describe("a narrow terminal", function()
  it("has every table within its width", function()
    if not has "script" then return end
    command.write(folder, "rank0.json", [[{"traceEvents":[
      {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":0,"tid":7,"ts":5,"dur":1,"args":
        {"stream":9,"Collective name":"allreduce","In msg nelems":4000,"dtype":"Float","Group size":2}}]}]])
    for _, words in ipairs { "optimize --devices 8", "trace --list-metrics", "compare " .. small .. "micro_batches=2",
      "trace rank0.json kernel_breakdown collective_table" } do
      local output = command.shell(("cd %s && script -qec 'stty cols 64; %s/bin/ett %s' /dev/null"):format(folder,
        require("ett.host").prefix, words))
      local lines = 0
      for line in output:gsub("\r\n", "\n"):gsub("where they differ.*", ""):gmatch "[^\n]+" do
        line = line:match "[^\r]*$":gsub("\27%[K", "")
        local prose = line:match "^# " or line:match "^ett: " or line:match "^[%w_]+: "
        assert(prose or #line <= 64, line)
        lines = lines + 1
      end
      assert.is_true(lines > 2, output)
    end
    os.remove(folder .. "/rank0.json")
  end)

  it("has the options of --help within its width", function()
    if not has "script" then return end
    for _, name in ipairs { "predict", "fit", "trace" } do
      local output = command.shell(("script -qec 'stty cols 48; %s/bin/ett %s --help' /dev/null"):format(
        require("ett.host").prefix, name))
      for line in output:gsub("\r\n", "\n"):gmatch "[^\n]+" do assert(#line <= 48, line) end
    end
  end)
end)

describe("a long fit", function()
  needs.fitting(it, pending)("of many rows of few kernels takes no square of their number", function()
    local rows = { "mp,b,l,dim,F_dur(us),B_dur(us)" }
    for i = 1, 20000 do -- the first of the eight shapes that a fit needs has all rows but seven
      rows[i + 1] = ("1,1,%d,256,%g,%g"):format(512 * math.max(1, i - 19992), 5 + i % 7 / 10, 9 + i % 5 / 10)
    end
    command.write(folder, "D_gelu_fp16.csv", table.concat(rows, "\n") .. "\n")
    local output, status = command.ett(folder, "fit D_gelu_fp16.csv --fresh") -- took two minutes
    assert.equal(0, status, output)
    assert.matches("gelu fp16 forward   20000        0", output)
    os.remove(folder .. "/D_gelu_fp16.csv")
  end)

  needs.fitting(it, pending)("names on a terminal the model at work", function()
    if not has "script" then return end
    local rows = { "mp,b,l,dim,F_dur(us),B_dur(us)" }
    for i = 1, 60 do rows[i + 1] = ("1,1,%d,%d,%g,%g"):format(i * 64, i * 32, i * i / 10 + 5, i * i / 5 + 5) end
    command.write(folder, "NVIDIAA100-SXM4-80GB_gelu_fp16.csv", table.concat(rows, "\n") .. "\n")
    local output = command.shell(("script -qec '%s/bin/ett fit %s --fresh' /dev/null"):format(
      require("ett.host").prefix, folder))
    assert.matches("\r\27%[Kfitting gelu fp16 forward of NVIDIAA100%-SXM4%-80GB", output)
  end)
end)
