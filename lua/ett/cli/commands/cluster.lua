--- `ett cluster init` writes a cluster file of this machine; `ett cluster add-curve` adds measured collectives to one.
local error_module = require "ett.base.error"
local pretty = require "ett.base.pretty"
local refuse = require "ett.cli.refuse"

local function init(opts, words)
  if #words ~= 1 then error_module.raise("usage", "cluster init: give a name") end
  local path, text = require("ett.sampling.cluster_init").write(words[1], opts.out or "clusters", opts.backend)
  if opts.json then
    local described = require("ett.base.find").load_file(path)
    described.path = path
    require "ett.cli.print_value"(opts, described)
  elseif not opts.quiet then
    io.write(text)
    print("# written to " .. path)
  end
end

local function add_curve(opts, words)
  if #words < 2 then
    error_module.raise("usage", "cluster add-curve: give a cluster file and at least one output of nccl-tests")
  end
  local nccl_tests, cluster_curves = require "ett.import.nccl_tests", require "ett.import.cluster_curves"
  local runs, done = {}, {}
  for i = 2, #words do
    runs[i - 1] = nccl_tests.read(words[i], { kind = opts.kind, ranks = opts.ranks, in_place = opts.in_place })
  end
  for i, run in ipairs(runs) do
    local path, where = cluster_curves.add(words[1], run, { tier = opts.tier, replace = opts.replace })
    local curve = run.curve
    done[i] = { path = path, where = where, kind = run.kind, ranks = run.ranks, hosts = run.hosts, device = run.device,
      sizes = #curve // 2, least_bytes = curve[1], most_bytes = curve[#curve - 1], bytes_per_second = curve[#curve] }
    if not (opts.json or opts.quiet) then
      local text = ("%s: %s over %d ranks%s, %d sizes from %d to %d bytes, %.1f GB/s at the largest, in %s"):format(
        path, run.kind, run.ranks, run.device and " of " .. run.device or "", #curve // 2, curve[1],
        curve[#curve - 1], curve[#curve] / 1e9, where)
      print(pretty.line(text))
    end
  end
  require "ett.cli.print_value"(opts, done)
end

local actions = { init = init, ["add-curve"] = add_curve }
local unread = { init = { "kind", "ranks", "tier", "in_place", "replace" }, ["add-curve"] = { "backend", "out" } }

return {
  name = "cluster",
  offers = { "init", "add-curve" },
  finds = true,
  summary = "write a cluster file of this machine, or add measured collectives to a cluster file",
  usage = "cluster init NAME [--backend cpu|cuda] [--out DIR]\n"
    .. "       ett cluster add-curve FILE.lua OUTPUT ... [--tier NAME] [--replace]",
  description = "init: finds GPUs, processors, memory, NUMA nodes and network cards, and measures peak rates by short\n"
    .. "probes. On GPUs it runs products by cuBLASLt in every precision, a copy in memory and a copy to the\n"
    .. "next GPU. Without a GPU it measures the processors. CUDA_VISIBLE_DEVICES chooses the GPUs.\n"
    .. "The file goes to DIR/NAME.lua; add its folder's parent to ETT_PATH, or name the file itself.\n\n"
    .. "add-curve: reads the output of nccl-tests (or rccl-tests): all_reduce_perf, all_gather_perf,\n"
    .. "reduce_scatter_perf, alltoall_perf, sendrecv_perf or broadcast_perf, one file each. Writes the bandwidths by\n"
    .. "message size into the cluster file. Collectives of that kind then use the measured bandwidth.",
  options = {
    { "backend", "NAME", "init: measure the GPUs (cuda) or the processors (cpu); default: cuda if there is a GPU",
      choices = { "cpu", "cuda" } },
    { "out", "DIR", "init: folder to write the file to (default clusters)" },
    { "kind", "NAME", "add-curve: kind of collective, if the output does not name its test" },
    { "ranks", "N", "add-curve: the number of ranks, if the output does not list them", kind = "count", least = 2 },
    { "tier", "NAME", "add-curve: tier of links that was measured (default: the node; for several hosts the network)" },
    { "in-place", "add-curve: use the in-place times, not the out-of-place times" },
    { "replace", "add-curve: replace a curve of the same kind and number of ranks" },
    { "json", "print the result as JSON" },
    { "quiet", "print nothing" },
  },
  run = function(opts, words)
    local action = actions[words[1] or ""]
    if not action then
      error_module.raise("usage", "cluster: give init NAME or add-curve FILE%s; `ett cluster --help` explains both",
        words[1] and error_module.suggestion(words[1], { "init", "add-curve" }) or "")
    end
    refuse(opts, unread[words[1]], "cluster: --%s has no effect on %s", words[1])
    action(opts, table.move(words, 2, #words, 1, {}))
  end,
}
