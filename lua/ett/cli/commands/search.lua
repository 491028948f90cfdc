--- `ett search`: finds the best plan of a model on a cluster.
local error_module = require "ett.base.error"
local fields = require "ett.cli.fields"
local merged = require "ett.base.merged"
local options = require "ett.base.options"
local trainer_files = require "ett.cli.trainer_files"

-- Fields that a launch script or a trainer's file fixes for every layout. Its layout is searched.
local settled = { "seq", "global_batch", "dtype", "gradient_dtype", "reduce_dtype", "fused_accumulation",
  "optimizer_bytes", "optimizer", "muon_steps", "muon_tensor", "data_seconds", "stall_seconds",
  "clip_gradients", "capacity_factor", "pad_to_capacity", "deduplicate_tokens", "lora_rank",
  "lora_targets", "lora_dropout", "frozen_weights", "stack" }

--- Sets the field gradient_all_reduce of DeepSpeed's flags. It follows from the stage, so that a search over stages
--- varies both.
local function settle_reduction(opts, plan, vary)
  if plan.gradient_all_reduce ~= nil or vary.gradient_all_reduce then return end
  local all_reduces = require("ett.import.export.deepspeed").all_reduces
  if plan.zero then
    plan.gradient_all_reduce = all_reduces(plan.zero)
    return
  end
  local stages = {}
  for zero = 0, 3 do if all_reduces(zero) then stages[#stages + 1] = "zero == " .. zero end end
  local rule = ("gradient_all_reduce == (%s)"):format(table.concat(stages, " or "))
  vary.gradient_all_reduce = { false, true }
  opts.where = opts.where and ("(%s) and %s"):format(opts.where, rule) or rule
end

--- Adds a note on fields of a file that the search neither fixes nor searches.
---@param own table the file's plan
local function note_left(model, own, plan, vary)
  local left = merged(own)
  for name in pairs(own) do if plan[name] ~= nil or vary[name] then left[name] = nil end end
  for _, name in ipairs(require("ett.search.searched").fields) do left[name] = nil end
  local words = require("ett.search.text").plan(left)
  if words == "" then return end
  model.notes = model.notes or {}
  table.insert(model.notes, ("the search leaves these fields of the file at their defaults; add those to keep: %s")
    :format(words))
end

--- The number of devices; of several numbers the least and the most. Empty: not stated.
local function stated_devices(opts)
  local list, numbers = { opts.devices }, {}
  for _, word in ipairs(opts.vary or {}) do
    local text = word:match "^devices=(.+)$"
    list = text and text ~= "all" and fields.list("search", "devices", text) or list
  end
  for i, value in ipairs(list) do numbers[i] = math.max(1, math.tointeger(value) or 1) end -- others are refused later
  table.sort(numbers)
  return numbers[1], numbers[#numbers]
end

--- Model, fixed and varied fields and devices (nil: not stated) of --megatron-args or --plan, overridden by the words,
--- the file's plan, and the fields that the file states. A global batch that differs between the numbers of devices is
--- left out.
local function of_file(opts, words)
  local texts, hyper = trainer_files.sort("search", opts, options.words(words, "search"))
  local given, vary = fields.split("search", texts)
  given.seq, given.global_batch = opts.seq or given.seq, opts.global_batch or given.global_batch
  local sizes, devices, most = fields.values(hyper), stated_devices(opts)
  local function run_of(dp, micro_batch)
    return trainer_files.read(opts, merged(given, { dp = given.dp or dp, micro_batch = given.micro_batch
      or micro_batch }), sizes)
  end
  local function ranks_of(p) return (p.tp or 1) * (p.pp or 1) * (p.cp or 1) end
  local function batch_of(p)
    return p.global_batch or p.dp and p.micro_batches and p.dp * (p.micro_batch or 1) * p.micro_batches
  end
  local first = select(2, run_of(opts.megatron_args and 1 or devices))
  -- The micro-batch of a launch script is only searched, and needs no note if the file lacks it.
  local function run_on(number)
    return run_of(number and math.max(1, number // ranks_of(first)), opts.megatron_args and first.micro_batch)
  end
  local model, p, stated = run_on(devices)
  local plan = {}
  for _, name in ipairs(settled) do plan[name] = p[name] end
  plan.global_batch = batch_of(p)
  if most ~= devices and batch_of(select(2, run_on(most))) ~= plan.global_batch then plan.global_batch = nil end
  opts.seq, opts.global_batch = nil, nil
  return model, merged(plan, given), vary, p.dp and ranks_of(p) * p.dp, p, stated
end

--- Refuses a name in --fix or --vary that is no field of a plan.
local function check_name(option, name, text)
  if option == "vary" and (name == "devices" or name == "cluster") then return end
  if require("ett.model.hyper").fields[name] and not require("ett.plan").schema[name] then
    error_module.raise("usage", "search: --%s: '%s' is a hyper-parameter; %s", option, name, option == "vary"
      and "`ett sweep` varies these" or error_module.message("write '%s=%s' alone", name, text))
  end
  fields.sort("search", { [name] = text }, {})
end

--- The model, and fixed and varied fields, from the command line; and the fields that a file states (nil: no file).
local function asked(opts, words)
  local model, plan, vary, devices, own, stated
  trainer_files.check("search", opts)
  if opts.megatron_args or opts.plan then
    model, plan, vary, devices, own, stated = of_file(opts, words)
  else
    local texts
    texts, model = fields.subject("search", opts, words)
    plan, vary = fields.split("search", texts)
  end
  local function set(into, name, value)
    if into[name] ~= nil then error_module.raise("usage", "search: field '%s' is given twice", name) end
    into[name] = value
  end
  for _, option in ipairs { "fix", "vary" } do
    for _, word in ipairs(opts[option] or {}) do
      local name, text = word:match("^([%w_]+)=(.+)$")
      if not name then
        error_module.raise("usage", "search: --%s must be FIELD=%s, got '%s'", option, option == "fix" and "VALUE"
          or "A,B,C, LOW..HIGH or LOW..HIGH..STEP", word)
      end
      check_name(option, name, text)
      if option == "fix" then
        local list = fields.list("search", name, text)
        if #list > 1 then
          error_module.raise("usage", "search: --fix %s has several values; --vary %s searches them", word, word)
        end
        set(plan, name, list[1])
      else
        set(vary, name, text == "all" and "all" or fields.list("search", name, text))
        for _, cluster in ipairs(name == "cluster" and text ~= "all" and vary.cluster or {}) do
          fields.one_cluster("search", cluster)
        end
      end
    end
  end
  for option, name in pairs { global_batch = "global_batch", seq = "seq" } do
    if opts[option] then set(plan, name, opts[option]) end
  end
  if own and own.gradient_all_reduce ~= nil then settle_reduction(opts, plan, vary) end -- DeepSpeed reduces them
  if own then note_left(model, own, plan, vary) end
  if not vary.devices then opts.devices = opts.devices or devices end
  for name in pairs(stated or {}) do
    if plan[name] == nil or vary[name] then stated[name] = nil end -- the layout is searched
  end
  return model, plan, vary, stated
end

--- Raises if the devices, the batch or the sequence are not given. A file may state them, and its batch may follow from
--- the devices.
local function check_given(opts, plan, vary)
  local missing = {}
  local function need(text, ...)
    for _, name in ipairs { ... } do
      if opts[name] or plan[name] ~= nil or vary[name] then return end
    end
    missing[#missing + 1] = text
  end
  need("--devices N, or several numbers with --vary devices=64..1024", "devices")
  local numbers = type(vary.devices) == "table" and vary.devices or { opts.devices }
  local has_devices = not missing[1]
  for _, value in ipairs(numbers) do has_devices = has_devices and math.type(value) == "integer" end
  if has_devices or not (opts.megatron_args or opts.plan) then
    need("--global-batch N", "global_batch", "micro_batches")
  end
  local compares = false -- several lengths: check_compared asks for them
  for _, name in ipairs(opts.objective) do compares = compares or name == "seq" end
  if not compares then need("--seq N", "seq") end
  if missing[1] then error_module.raise("usage", "search: give %s", table.concat(missing, "; ")) end
end

-- The objectives that compare values of one field, and several values of it.
local compared = { devices = "64,128,256", seq = "8Ki,16Ki,32Ki" }

--- Raises, or prints a note on one rank, if an objective has no values to compare.
local function check_compared(opts, plan, vary, prints)
  for _, name in ipairs(opts.objective) do
    local values = vary[name]
    if compared[name] and not (values and #values > 1) then
      local advice = ("the objective '%s' compares several values: --vary %s=%s"):format(name, name, compared[name])
      if not (opts[name] or plan[name] or values) then error_module.raise("usage", "search: %s", advice) end
      if prints then io.stderr:write(("ett: note: %s\n"):format(advice)) end
    end
  end
end

--- A function that shows the progress as a line on the terminal. The first units take much longer than later ones, so
--- the time left follows from the last units.
local function progress_with(show)
  local now = require("ett.sample").now
  local start = now()
  local last, before, each = start, 0, nil
  return function(done, units, best, effort)
    local at = now()
    local recent = (at - last) / math.max(done - before, 1)
    last, before, each = at, done, each and (each + recent) / 2 or recent
    show("%d of %d programs, %.0f layouts per second%s, about %.0f s left", done, units,
      effort.plans / math.max(at - start, 1e-3), best and (", best %.4g s"):format(best.step_seconds) or "",
      each * (units - done))
  end
end

--- The best plan's cluster, as its text in --vary; nil if clusters do not vary.
local function varied_cluster(s, vary)
  for _, text in ipairs(vary.cluster or {}) do
    if require("ett.profile.cluster").get(text).name == s.best.estimate.cluster then return text end
  end
end

local function print_result(opts, s, model, cluster)
  if opts.export then
    fields.write_plan(opts.export, model, s.best.estimate.plan, cluster)
  elseif opts.json then
    require "ett.cli.print_value"(opts, s, "rows")
  elseif opts.quiet then
    local words = require("ett.search.text").plan(s.best.estimate.plan)
    print(cluster and ("--cluster %s %s"):format(cluster, words) or words)
  else
    local text, host = require "ett.search.text", require "ett.host"
    print(require("ett.base.pretty").plain(text.result(s, { width = host.columns })))
    io.stderr:write(require("ett.report.table").fit(text.effort(s)), "\n")
  end
end

-- What the short titles of the table's columns stand for.
local function column_titles()
  local searched = require "ett.search.searched"
  local text, columns = "Short titles of columns:", 24
  for _, name in ipairs(searched.order) do
    local title = searched.titles[name]
    local word = title and (" %s (%s),"):format(title, name) or ""
    columns = columns + #word
    if columns > 100 then word, columns = "\n" .. word:sub(2), #word - 1 end
    text = text .. word
  end
  return (text:gsub(",$", "."))
end

return {
  name = "search",
  finds = true,
  sandbox = true,
  models = true, -- `--help NAME` describes a model
  offers = fields.offers,
  summary = "find the best plan over layouts, devices and clusters",
  usage = "search --model NAME|config.json --cluster NAME --devices N --global-batch N --seq N [NAME=VALUE ...]\n"
    .. "       ett search --megatron-args FILE [--model NAME] --cluster NAME [--devices N] [NAME=VALUE ...]\n"
    .. "       ett search --plan FILE --model NAME --cluster NAME [--devices N] [NAME=VALUE ...]",
  description = function(opts)
    return "Searches all layouts by branch and bound; the result is the optimum of the whole space.\n"
      .. "A field with one value, as NAME=VALUE or by --fix, is fixed. A field with several values, as NAME=LIST\n"
      .. "or by --vary, is searched over them: 1,2,4 is a list, 1..64 doubles, 8..64..8 has steps of 8.\n"
      .. "The column 'best in 100' is the probability, in percent, that a row is really the best of the first\n"
      .. "20 rows. Estimates have errors, so none is certain.\n"
      .. column_titles() .. "\n"
      .. "Ctrl-C, or `timeout 60 ett search ...` after 60 s, ends a search early. It prints the best plan so\n"
      .. "far, if it has found one and runs as one process (not under mpirun or srun).\n\n"
      .. fields.help(opts)
  end,
  hints = fields.hints { gpus = "did you mean '--devices'?", nodes = "give the number of devices: --devices" },
  options = {
    fields.model_option,
    { "megatron-args", "FILE", "Megatron-LM's flags: sequence, batch, precision and devices; without --model "
      .. "the model, too" },
    { "plan", "FILE", "with --model: sequence, batch, precision and devices from a file of torchtitan (TOML), "
      .. "DeepSpeed (JSON), MaxText, GPT-NeoX, Accelerate, nanotron, TRL, LLaMA-Factory or Axolotl. Also a file of "
      .. "--megatron-args" },
    { "cluster", "NAME", ("a cluster by name or file (default %s); for several use --vary cluster=dgx_h100,dgx_b200")
      :format(fields.default_cluster) },
    { "devices", "N", "number of devices; for several use --vary devices=64..1024", kind = "count",
      several = "--vary devices=8,16" },
    { "global-batch", "N", "sequences per step", kind = "count" },
    { "seq", "N", "tokens per sequence", kind = "count" },
    { "where", "EXPR", "allow only plans for which this Lua expression holds, such as 'tp <= gpus_per_node'" },
    { "fix", "FIELD=VALUE", "fix a field (repeatable)", many = true },
    { "vary", "FIELD=LIST", "values of a field, devices or cluster (repeatable): 1,2,4, 1..64, 8..64..8 or all",
      many = true },
    { "objective", "NAME", "step_seconds, tokens_per_second, tokens_per_second_per_device, days, dollars, kwh, "
      .. "devices (fewest), seq (longest) or memory_bytes; several, separated by commas, give the Pareto front",
      kind = "list", default = "step_seconds", offers = function() return require("ett.search.objective").names() end },
    { "tokens", "N", "tokens of the whole run", kind = "positive" },
    { "days", "D", "allow only plans that need at most D days for --tokens", kind = "positive" },
    { "budget", "D", "allow only plans that cost at most D dollars for --tokens", kind = "positive" },
    { "kwh", "E", "allow only plans that need at most E kWh for --tokens", kind = "positive" },
    { "headroom", "F", "fraction of the memory to leave free", kind = "number", least = 0, most = 0.99, default = 0 },
    { "top", "N", "number of layouts to keep (default 100, with --html 1000)", kind = "count" },
    { "each", "keep the best plan of each combination of cluster, devices and varied values" },
    { "exhaustive", "evaluate every plan that fits in memory, and exclude none by bounds" },
    { "journal", "DIR", "store finished parts in DIR; after a kill the same command continues", writes = true },
    { "json", "print JSON" },
    { "html", "FILE", "also write a self-contained page: the plans as points, filters, the best side by side; "
      .. "missing folders are made",
      writes = true },
    { "quiet", "print the best plan as words for `ett predict`, with --cluster if clusters vary" },
    fields.export_option,
  },
  run = function(opts, words)
    fields.one_cluster("search", opts.cluster)
    local model, plan, vary, stated = asked(opts, words)
    check_given(opts, plan, vary)
    local share = require("ett.base.share").join()
    local rank = share and share.rank() or 0
    check_compared(opts, plan, vary, rank == 0)
    local show = require("ett.cli.progress").line(rank > 0)
    local new = require("ett.search.search").new
    local s = trainer_files.wrap_many(opts, stated, new, { model = model, devices = opts.devices,
      cluster = opts.cluster or not vary.cluster and fields.default_cluster or nil, plan = plan, vary = vary,
      where = opts.where, objective = opts.objective, tokens = opts.tokens, days = opts.days, budget = opts.budget,
      kwh = opts.kwh, headroom = opts.headroom, keep = opts.top or opts.html and 1000 or nil,
      exhaustive = opts.exhaustive, energy = opts.html ~= nil, each = opts.each, journal = opts.journal,
      share = share or false, partial = true, progress = progress_with(show) })
    show()
    if share then share.leave() end
    if rank > 0 then return #s.rows == 0 and 1 or 0 end
    if #s.rows == 0 then
      trainer_files.wrap_many(opts, stated, error_module.raise, "limit", "search: %s", s.nothing)
    end
    print_result(opts, s, model, varied_cluster(s, vary))
    if opts.html then require("ett.search.page").new(s, model):write(opts.html) end
    require "ett.cli.wrote"(opts, opts.html)
    if s.interrupted then -- ends as by the signal
      error_module.raise("interrupt", "search: interrupted: the plan is the best so far, not the optimum%s",
        opts.journal and "; the same command continues from the journal" or "")
    end
  end,
}
