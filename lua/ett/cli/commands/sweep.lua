--- `ett sweep`: evaluates every combination of plan fields and hyper-parameters.
local error_module = require "ett.base.error"
local fields = require "ett.cli.fields"
local merged = require "ett.base.merged"
local options = require "ett.base.options"
local trainer_files = require "ett.cli.trainer_files"

local megatron_option, plan_option = trainer_files.options()

--- The model, the plan and the swept fields of the words, and of the file if one is given. Second: the fields that the
--- file states.
local function subject(opts, words)
  trainer_files.check("sweep", opts)
  local has_file = opts.megatron_args or opts.plan
  local texts, hyper
  if has_file then
    texts, hyper = trainer_files.sort("sweep", opts, options.words(words, "sweep"))
  else
    texts, hyper = fields.sorted("sweep", opts, words)
  end
  local plan, over = fields.split("sweep", texts)
  local fixed, hyper_over = fields.split("sweep", hyper)
  for name, list in pairs(hyper_over) do
    for _, value in ipairs(opts.model and list or {}) do fields.check_hyper(opts.model, name, value) end
  end
  if not (next(over) or next(hyper_over)) then
    error_module.raise("usage", "sweep: give several values to at least one field, such as pp=1,2,4")
  end
  if has_file then return trainer_files.swept(opts, plan, over, fixed, hyper_over) end
  for name, value in pairs(fixed) do fields.check_hyper(opts.model, name, value) end
  local function model(own) return fields.model_of(opts.model, merged(fixed, own)) end
  return { model = next(hyper_over) and model or model {}, hyper = next(hyper_over) and hyper_over or nil, plan = plan,
    over = over }
end

return {
  name = "sweep",
  finds = true,
  sandbox = true,
  models = true, -- `--help NAME` describes a model
  offers = fields.offers,
  summary = "evaluate every combination of plan fields and hyper-parameters",
  usage = "sweep --model NAME|config.json [--cluster NAME|FILE.lua] NAME=A,B,C NAME=1..64 NAME=VALUE ...\n"
    .. "       ett sweep --megatron-args FILE [--model NAME] [--cluster NAME|FILE.lua] NAME=A,B,C NAME=VALUE ...",
  description = function(opts)
    return "Fields with several values are swept: 1,2,4 is a list, 1..64 doubles, 8..64..8 has steps of 8.\n"
    .. "Fields with one value are set.\n"
    .. "They change the plan of a launch script or a trainer's file; each row is as `ett predict` reads the file.\n"
      .. "Each combination of hyper-parameters is a model; its rows have a column `parameters`.\n\n"
      .. fields.help(opts)
  end,
  hints = fields.hints { vary = "a field with several values is swept: NAME=A,B,C",
    fix = "write the field as a word: NAME=VALUE", sort = "did you mean '--objective'?" },
  options = {
    fields.model_option, megatron_option, plan_option,
    { "cluster", "NAME", "a cluster by name or file", default = fields.default_cluster },
    { "accept-device", "accept samples of a device other than the cluster's" },
    { "devices", "N", "keep only plans on this many devices", kind = "count",
      several = "`ett search … --vary devices=8,16 --each`" },
    { "objective", "NAME", "step_seconds, tokens_per_second, tokens_per_second_per_device or memory_bytes",
      default = "step_seconds" },
    { "require-fit", "exit 1 when no plan fits the devices' memory" },
    { "json", "print every row as JSON" },
    { "quiet", "print only the seconds of the best row" },
  },
  run = function(opts, words)
    fields.one_cluster("sweep", opts.cluster)
    local what, stated = subject(opts, words)
    local cluster = opts.accept_device and require("ett.profile.cluster").accepting(opts.cluster) or opts.cluster
    local share = require("ett.base.share").join()
    local show = require("ett.cli.progress").line(share and share.rank() > 0)
    local s = trainer_files.wrap_many(opts, stated, require("ett.search.sweep").new, merged(what, { share = share,
      keep = not opts.json and 20 or nil, progress = function(done, all) show("%d of %d plans", done, all) end,
      cluster = cluster, devices = opts.devices, objective = opts.objective }))
    show()
    if share then share.leave() end
    if share and share.rank() > 0 then return #s.rows == 0 and 1 or 0 end
    if #s.rows == 0 then
      trainer_files.wrap_many(opts, stated, error_module.raise, "limit", "sweep: no plan is valid%s%s", opts.devices
        and (" on %d devices"):format(opts.devices) or "", s.refusal and "; the first was refused: " .. s.refusal or "")
    end
    if opts.json then
      require "ett.cli.print_value"(opts, s, "rows")
    else
      print(opts.quiet and ("%.17g"):format(s.rows[1].step_seconds) or tostring(s))
    end
    if opts.require_fit and s.fit_advice then error_module.raise("limit", "sweep: %s", s.fit_advice) end
  end,
}
