-- Random descriptions, command lines and cache files:
--   ett run spec/fuzz/descriptions.lua what=cluster,plan,hyper,operator,schedule,words seed=1 seconds=60
--   ett run spec/fuzz/descriptions.lua what=foreign seed=1 seconds=60    -- the kinds of foreign.lua
-- A finding is printed with its kind and seed; `what=KIND seed=SEED count=1` repeats it.
local host = require "ett.host"
package.path = ("%s;%s/spec/fuzz/?.lua;%s/spec/support/?.lua"):format(package.path, host.root, host.root)
local ett = require "ett"
local lfs = require "lfs"

local o = ett.options {
  what = { "list", default = { "cluster", "plan", "schedule", "operator", "hyper", "words" } },
  seed = { "count", default = 1 }, seconds = { "positive", default = 10 }, count = { "count", default = 1 << 40 },
}

local folder = ett.folder.temporary()
local random = math.random
local m = require "mutators"
local pick, any, copy, sorted, mutated, source = m.pick, m.any, m.copy, m.sorted, m.mutated, m.source

local llama = { layers = 4, hidden = 512, heads = 8, vocab = 1000 }
local plan = { tp = 2, pp = 2, dp = 2, seq = 512, micro_batches = 4 }
local cluster = { name = "mine", summary = "s", source = "s", gpus_per_node = 4,
  device = { name = "D", source = "s", peak_flops = { fp32 = 19.5e12, bf16 = 312e12 }, memory_bytes = 40e9,
    memory_bandwidth = 1.5e12, multiprocessors = 108 },
  links = { intra = { bandwidth = 230e9, source = "s", curves = { [2] = { 1e6, 1e9, 1e8, 1e11 },
      all_gather = { [4] = { 1e6, 1e9 } } } },
    inter = { bandwidth_per_gpu = 3e9, bandwidth_per_node = 12e9, source = "s" } } }
local tiers = { name = "pods", summary = "s", source = "s", device = cluster.device, tiers = {
  { name = "node", size = 4, bandwidth = 450e9, source = "s" },
  { name = "leaf", size = 16, bandwidth = 48e9, source = "s" },
  { name = "spine", bandwidth = { send = 48e9, receive = 40e9 }, oversubscription = 2, source = "s" } } }

local function finite(value, name)
  assert(type(value) == "number" and value == value and math.abs(value) < math.huge, name .. " = " .. tostring(value))
end

-- An estimate whose numbers are finite and in order, printed and as JSON.
local function estimate(what)
  local e = ett.estimate(what)
  for _, name in ipairs { "step_seconds", "low_seconds", "high_seconds", "memory_bytes", "mfu_percent",
    "bubble_percent" } do
    finite(e[name], name)
  end
  assert(e.step_seconds > 0 and e.low_seconds <= e.step_seconds * (1 + 1e-9) and e.step_seconds <= e.high_seconds
    * (1 + 1e-9), "interval")
  assert(#tostring(e) > 100)
  assert(ett.json.encode(getmetatable(e).__json(e)))
end

local small_model
local function small()
  small_model = small_model or ett.model.new("llama", llama)
  return small_model
end

-- Writes a description under a new name, which it returns. The description before is removed: what is kept of other
-- files stays, so that a case is cheap.
local written, last = 0, nil
local function file(place, text)
  if written == 0 then
    for _, each in ipairs { "operators", "lua/schedules", "lua/stacks", "lua/architectures", "lua/models",
      "lua/ett/metrics" } do
      ett.folder.make(folder .. "/root/" .. each)
    end
    ett.find.set_folders { folder .. "/root" }
  end
  if last then os.remove(last) end
  written = written + 1
  local name = ("fuzzed%d"):format(written)
  last = ("%s/root/%s/%s.lua"):format(folder, place, name)
  assert(ett.io.write(last, (text:gsub("FUZZED", name))))
  return name
end

local function of_function(expressions)
  return function()
    return random(3) > 1 and expressions[1] or random(2) == 1 and source(any(0)) or pick(expressions)
  end
end
local number = of_function { "2.0 * s.tokens * s.width", "s.tokens", "s.nothing", "s.tokens / 0", "-1.0",
  "error 'own'", "{}", "s.tokens * s.width * 4.0", "('x'):rep(3)" }
local shape = of_function { "{ tokens = c.micro_batch * c.seq // c.cp, width = c.ffn // c.tp }",
  "{ tokens = 8, width = 1 }",
  "{ tokens = 0 }", "{ tokens = 1.5, width = 2 }", "{}", "c.nothing.x", "error { kind = 'plan', message = 'm' }" }

local subjects = {}

function subjects.cluster()
  local profile = nil
  if random(2) == 1 then profile = false end
  estimate { model = small(), cluster = mutated(pick { cluster, tiers }), plan = plan, profile = profile }
end

function subjects.plan()
  local fields, p = sorted(ett.plan.schema), copy(plan)
  for _ = 1, random(4) do p[pick(fields)] = any(1) end
  estimate { model = small(), cluster = "dgx_h100", plan = p }
end

function subjects.hyper()
  local fields, h = sorted(require("ett.model.hyper").fields), copy(llama)
  for _ = 1, random(4) do h[pick(fields)] = any(1) end
  local name = pick { "llama", "gpt", "mixtral", "hybrid", "encoder", "encoder_decoder" }
  if name == "mixtral" then h.experts, h.top_k = h.experts or 8, h.top_k or 2 end
  estimate { model = ett.model.new(name, h), cluster = "dgx_h100", plan = plan }
end

function subjects.operator()
  local op = { name = "FUZZED", summary = "s", schema = { tokens = "count", width = "count" },
    shape = "@function(c) return " .. shape() .. " end", flops = "@function(s) return " .. number() .. " end",
    bytes = "@function(s) return " .. number() .. " end" }
  if random(4) == 1 then op.parameters = "@function(s) return " .. number() .. " end" end
  if random(4) == 1 then op.activation_bytes = "@function(s) return " .. number() .. " end" end
  local name = file("operators", "return " .. source(random(2) == 1 and op or mutated(op)))
  estimate { model = ett.model.list({ "rms_norm", "linear_up", name, "linear_down", "residual_add" },
    { layers = 2, hidden = 256, heads = 4, ffn = 1024, vocab = 1000 }), cluster = "dgx_h100", plan = plan }
end

function subjects.schedule()
  local units = {}
  for i = 1, random(0, 12) do
    units[i] = random(8) == 1 and any(0)
      or { pick { "F", "B", "W", "X", 1 }, pick { 1, 2, 3, 4, 0, -1, 5, 1.5 }, pick { 1, 1, 2 } }
  end
  local good = "local u = {} for i = 1, p.micro_batches do u[2*i-1] = {'F', i, 1} u[2*i] = {'B', i, 1} end return u"
  local order = random(3) == 1 and good or "return " .. source(units)
  local schedule = { name = "FUZZED", summary = "s", source = "s",
    order = "@function(stage, p) " .. order .. " end" }
  local p = copy(plan)
  p.schedule = file("lua/schedules", "return " .. source(random(3) == 1 and mutated(schedule) or schedule))
  estimate { model = small(), cluster = "dgx_h100", plan = p }
end

local commands = { "predict", "sweep", "search", "compare", "list", "optimize", "transformer", "simple-transformer",
  "trace", "fit", "samples", "cluster", "run", "submit --print", "completion", "manual", "show-example",
  "list-examples", "help" }

local function quoted(text) return "'" .. text:gsub("%z", ""):gsub("'", "'\\''") .. "'" end

local function line_of(words)
  local parts = {}
  for i, word in ipairs(words) do parts[i] = quoted(word) end
  return "ett " .. table.concat(parts, " ")
end

-- The words of a command line, its name first.
local function random_words()
  local words = {}
  for word in pick(commands):gmatch "%S+" do words[#words + 1] = word end
  local options = (require("ett.cli.commands").load(words[1]) or {}).options or {}
  if words[1] == "cluster" then words[2] = "add-curve" end -- init measures
  for _ = 1, random(0, 6) do
    local option = #options > 0 and random(2) == 1 and pick(options)
    if option and not option.writes and option[1] ~= "journal" and option[1] ~= "wait" then
      words[#words + 1] = "--" .. option[1]
      if #option > 2 then
        words[#words + 1] = option.choices and random(2) == 1 and pick(option.choices)
          or tostring(pick(random(2) == 1 and m.numbers or m.texts))
      end
    else
      words[#words + 1] = pick { "--model=llama3-8b", "--cluster=h100", "seq=4096", "tp=8", "dp=1..8",
        "micro_batches=8", "global_batch=64", "layers=4", "init", "add-curve", "merge", "from-trace", "clusters", "=",
        "x=", pick(m.texts),
        ("%s=%s"):format(pick(sorted(ett.plan.schema)), tostring(pick(random(2) == 1 and m.numbers or m.texts))) }
    end
  end
  return words
end

-- A process of its own: status and all that it prints.
local function started(words)
  local pipe = io.popen(("cd %s && timeout 60 %s/bin/%s 2>&1 </dev/null; echo \"status $?\""):format(folder,
    host.prefix, line_of(words)))
  local text = pipe:read "a"
  pipe:close()
  return tonumber(text:match "status (%d+)\n$"), text
end

-- The same in this process, a hundred times as fast.
local function called(words)
  local parts, real_print, real_write, here = {}, print, io.write, lfs.currentdir()
  local function write(...)
    for i = 1, select("#", ...) do parts[#parts + 1] = tostring((select(i, ...))) end
    return io.stdout
  end
  _G.print, io.write = write, write -- luacheck: ignore
  assert(lfs.chdir(folder))
  local ok, status = pcall(require "ett.cli.main", words)
  lfs.chdir(here)
  _G.print, io.write = real_print, real_write -- luacheck: ignore
  ett.find.set_folders(written > 0 and { folder .. "/root" } or {})
  if ok then return status, table.concat(parts, "\n") end
  local object = ett.error.from(status)
  if object.kind == "interrupt" then error(status, 0) end
  return object.kind == "usage" and 2 or 1, ("ett: %s\n"):format(tostring(object))
end

local line -- the last command line

-- Runs a command line, one in a hundred as a process; whether it answered.
local function answers(words)
  line = line_of(words)
  local status, text = (random(100) == 1 and started or called)(words)
  text = text:gsub("[^%s]*/root/lua/ett/metrics/", "") -- a user's metric may name itself
  if not (status == 0 or status == 1 or status == 2) or text:find "internal error" or text:find "stack traceback"
    or text:find("lua/ett/", 1, true) and status ~= 0 then
    error(("%s: status %s: %s"):format(line, status, text:sub(1, 400)), 0)
  end
  return status == 0, text
end

function subjects.words() return answers(random_words()) end

-- A file of the cache with a few bytes changed is refused or answers the same; one case in fifty fits again.
local measured = { tokens = 3000, width = 500 }
local fitted, kept
local function answer()
  local p = require("ett.profile").from_samples({ folder .. "/samples" }, { gpu = "D" })
  return ("%.17g"):format(p:operator("gelu", measured, "fp16", "forward").seconds)
end

local function fill_cache()
  local cache = folder .. "/cache"
  require("ett.profile.cache").folder = function() return cache end
  local rows = { "mp,b,l,dim,F_dur(us),B_dur(us)" }
  for i = 1, 60 do
    local outlier = i % 20 == 3 and 50 or 1
    rows[i + 1] = ("1,1,%d,%d,%g,%g"):format(i * 64, i * 32, (i * i / 10 + 5) * outlier, i * i / 5 + 5)
  end
  ett.folder.write_with_folder(folder .. "/samples/D_gelu_fp16.csv", table.concat(rows, "\n") .. "\n")
  fitted, kept = answer(), {}
  for name in lfs.dir(cache) do
    local path = cache .. "/" .. name
    if lfs.attributes(path, "mode") == "file" then
      kept[#kept + 1] = { path = path, key = name:match "^(.*)%.", text = assert(ett.io.read(path)) }
    end
  end
  table.sort(kept, function(a, b) return a.path < b.path end)
end

local function predicted(model)
  local dims = {}
  for i = 1, model:facts().dims do dims[i] = 1000 end
  return ("%.17g"):format((model:values(dims)))
end

function subjects.cache()
  local cache = require "ett.profile.cache"
  if not fitted then fill_cache() end
  local one = pick(kept)
  local model = cache.load(one.key)
  local before = model and predicted(model)
  local text = one.text
  for _ = 1, random(3) do
    local at = random(#text)
    text = text:sub(1, at - 1) .. string.char(random(0, 255)) .. text:sub(at + 1)
  end
  if random(4) == 1 then text = text:sub(1, random(#text)) end
  assert(ett.io.write(one.path, text))
  if random(50) == 1 then
    local now = answer()
    assert(now == fitted, ("the answer changed from %s to %s"):format(fitted, now))
  else
    local changed = cache.load(one.key)
    local rows = not changed and (cache.load_void(one.key) or cache.load_outliers(one.key))
    local now = changed and predicted(changed)
    assert(not changed or now == before, ("the answer changed from %s to %s"):format(before, now))
    assert(not rows or type(rows[1]) == "table", "rows")
  end
  assert(ett.io.write(one.path, one.text))
end

local function try(what, seed)
  math.randomseed(seed)
  local began = os.clock()
  line = ""
  local ok, raised = pcall(subjects[what])
  local took = os.clock() - began
  if took > 10 then return ("took %.0f s: %s"):format(took, line) end
  if ok then return nil, raised ~= false end
  local object = ett.error.from(raised)
  local message = tostring(object)
  if object.kind == "interrupt" then error(raised, 0) end
  -- A fault of a description's own function names the description.
  local places_ett = message:find("lua/ett/", 1, true) or message:find("stack traceback", 1, true)
    or message:find("spec/fuzz/", 1, true) or message:find("descriptions.lua:", 1, true)
  local named = message:find "^[%w_%./%-]+:[%d ]" or message:find "^layer '[^']*': fuzzed%d+: "
  if places_ett or #message > 4000 or object.kind == "internal" and not named then
    return message:sub(1, 600)
  end
end

local foreign = require "foreign" { folder = folder, file = file, estimate = estimate, small = small, llama = llama,
  plan = plan, cluster = cluster, finite = finite, answers = answers }
for name, subject in pairs(foreign) do subjects[name] = subject end
if o.what[1] == "foreign" then o.what = sorted(foreign) end

local began, total, findings, passed = os.time(), 0, 0, 0
local seed = o.seed
while os.time() - began < o.seconds and total < o.count do
  local what = o.what[1 + seed % #o.what]
  local finding, fine = try(what, seed)
  if finding then
    findings = findings + 1
    print(("%s seed=%d: %s"):format(what, seed, finding))
  end
  total, passed, seed = total + 1, passed + (fine and 1 or 0), seed + 1
end
ett.folder.remove(folder)
io.stderr:write(("%d cases from seed %d on, %d answered, %d findings, %.0f s of CPU\n"):format(total, o.seed,
  passed, findings, os.clock()))
