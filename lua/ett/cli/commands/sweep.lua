--- `ett sweep`: evaluates every combination of plan fields and hyper-parameters.
local error_module = require "ett.base.error"
local fields = require "ett.cli.fields"
local merged = require "ett.base.merged"
local options = require "ett.base.options"

--- Values of fields with one, and lists of those with several.
local function split(texts)
  local one, several = {}, {}
  for name, text in pairs(texts) do
    local list = fields.list("sweep", name, text)
    if #list > 1 then several[name] = list else one[name] = list[1] end
  end
  return one, several
end

return {
  name = "sweep",
  finds = true,
  sandbox = true,
  models = true, -- `--help NAME` describes a model
  summary = "evaluate every combination of plan fields and hyper-parameters",
  usage = "sweep --model NAME|config.json [--cluster NAME|FILE.lua] NAME=A,B,C NAME=1..64 NAME=VALUE ...",
  description = function(opts)
    return "A field with several values (1,2,4, or 1..64 for doublings) is swept, others are set. Each combination\n"
      .. "of hyper-parameters is a model; its rows have a column `parameters`.\n\n"
      .. fields.help(opts)
  end,
  options = {
    { "model", "NAME", "a model or an architecture by name or FILE.lua, or a Hugging Face config.json" },
    { "cluster", "NAME", "a cluster by name or file", default = "perlmutter" },
    { "accept-device", "accept samples of a device other than the cluster's" },
    { "devices", "N", "keep only plans on this many devices", kind = "count" },
    { "objective", "NAME", "step_seconds, tokens_per_second, tokens_per_second_per_device or memory_bytes",
      default = "step_seconds" },
    { "require-fit", "exit 1 when no plan fits the devices' memory" },
    { "json", "print every row as JSON" },
    { "quiet", "print the best row's seconds only" },
  },
  run = function(opts, words)
    if not opts.model then
      error_module.raise("usage", "sweep: needs --model NAME or config.json; see `ett sweep --help`")
    end
    local texts, hyper = fields.sort("sweep", options.words(words, "sweep"), opts.model)
    local plan, over = split(texts)
    local fixed, hyper_over = split(hyper)
    if not (next(over) or next(hyper_over)) then
      error_module.raise("usage", "sweep: no field has several values, such as pp=1,2,4")
    end
    local function model(own) return fields.model_of(opts.model, merged(fixed, own)) end
    local cluster = opts.accept_device and require("ett.profile.cluster").accepting(opts.cluster) or opts.cluster
    local share = require("ett.base.share").join()
    local show = require("ett.cli.progress").line(share and share.rank() > 0)
    local s = require("ett.search.sweep").new { share = share, keep = not opts.json and 20 or nil,
      progress = function(done, all) show("%d of %d plans", done, all) end,
      model = next(hyper_over) and model or model {}, hyper = next(hyper_over) and hyper_over or nil,
      cluster = cluster, plan = plan, over = over, devices = opts.devices, objective = opts.objective }
    show()
    if share then share.leave() end
    if share and share.rank() > 0 then return #s.rows == 0 and 1 or 0 end
    if #s.rows == 0 then
      error_module.raise("limit", "sweep: no plan is valid%s%s", opts.devices
        and (" on %d devices"):format(opts.devices) or "", s.refusal and "; the first was refused: " .. s.refusal or "")
    end
    if opts.json then
      io.write(require("ett.report.output").text(opts, getmetatable(s).__json(s), "rows"))
    elseif opts.quiet then
      print(("%.17g"):format(s.rows[1].step_seconds))
    else
      print(tostring(s))
    end
    if opts.require_fit and s.nothing_fits then error_module.raise("limit", "sweep: %s", s.nothing_fits) end
    return 0
  end,
}
