--- `ett submit`: runs a campaign as a Slurm job.
local error_module = require "ett.base.error"
local named = require "ett.cli.named"
local pretty = require "ett.base.pretty"
local refuse = require "ett.cli.refuse"

--- Whether a file is a script that calls a search, not a campaign.
local function searches(path)
  local file = path:match "%.lua$" and io.open(path, "r")
  if not file then return false end
  local text = file:read "a"
  file:close()
  return text:find("ett%.search[%s%({]") ~= nil or text:find("ett.search.search", 1, true) ~= nil
end

return {
  name = "submit",
  offers = "campaigns",
  starts = true,
  summary = "write and submit the Slurm job of a campaign or a search",
  usage = "submit CAMPAIGN|SEARCH.lua [--nodes N] [--ranks N] [option ...]",
  description = "Writes a batch script into the folder of the samples and submits it. --print only prints it.\n"
    .. "The ranks share the shapes of operators. For collectives they form all possible groups of nodes and ranks.\n"
    .. "A script that calls ett.search runs on all ranks, which divide the search. Other settings of the job come\n"
    .. "from the variables of sbatch, such as SBATCH_QOS and SBATCH_CONSTRAINT.",
  hints = { time = "did you mean '--minutes'?", ["ntasks-per-node"] = "did you mean '--ranks'?",
    ["gpus-per-node"] = "did you mean '--gpus'?", gres = "did you mean '--gpus'?" },
  options = {
    { "out", "DIR", "folder of the sample tables", default = "samples" },
    { "nodes", "N", "number of nodes", kind = "whole", least = 1, default = 1 },
    { "ranks", "N", "ranks per node", kind = "whole", least = 1, default = 1 },
    { "gpus", "N", "GPUs per node", kind = "whole", least = 1 },
    { "minutes", "N", "time limit of the job", kind = "whole", least = 1 },
    { "partition", "NAME", "Slurm's partition" },
    { "account", "NAME", "Slurm's account" },
    { "backend", "NAME", "back end (default: the campaign's)" },
    { "mpi", "NAME", "how srun starts MPI", default = "pmix" },
    { "precision", "LIST", "precisions, separated by commas", kind = "list" },
    { "wait", "wait for the end of the job; exit 1 if it failed" },
    { "print", "print the script and submit nothing" },
    { "json", "print the job's number and script as JSON" },
    { "quiet", "print the job's number only" },
  },
  run = function(opts, positional)
    if #positional ~= 1 then
      error_module.raise("usage", "submit: give one campaign, or one script that searches; `ett list campaigns` lists "
        .. "the bundled campaigns")
    end
    if opts.print then
      refuse(opts, { "csv", "json", "quiet", "wait" }, "submit: --%s needs a job; --print submits none")
    end
    local script = searches(positional[1])
    local submit = require "ett.sampling.submit"
    refuse(opts, script and { "backend", "precision" } or {},
      "submit: --%s needs a campaign; '%s' is a script that searches", positional[1])
    local given = not script and named(require("ett.sampling.campaign").load, positional[1]) -- checked before queueing
    local words = {}
    if opts.precision then words = { "--precision", table.concat(opts.precision, ",") } end
    local job = { campaign = positional[1], script = script, out = opts.out,
      nodes = opts.nodes, ranks_per_node = opts.ranks,
      gpus_per_node = opts.gpus, minutes = opts.minutes, partition = opts.partition, account = opts.account,
      backend = opts.backend, mpi = opts.mpi, words = words }
    local text, check = submit.script(job), require("ett.sampling.sampler").check
    if given and opts.backend then
      named(check, opts.backend, opts.precision)
    elseif given then
      check(given.backend, opts.precision)
    end
    if opts.print then
      io.write(text)
      return 0
    end
    local number, path = submit.submit(job)
    if not require "ett.cli.print_value"(opts, { job = number, script = path }) then
      print(opts.quiet and tostring(number) or pretty.plain(("job %d: %s"):format(number, path)))
    end
    if opts.wait then
      local sample = require "ett.sample"
      sample.catch_interrupts()
      local state, more = submit.wait(number, function(reason)
        if opts.quiet then return end
        io.stderr:write(pretty.plain(("# job %d is pending: %s"):format(number, (reason:gsub("_", " ")))), "\n")
      end)
      if not state then return 130 end
      if state ~= "COMPLETED" then error_module.raise("io", "job %d ended as %s: %s", number, state, more) end
    end
  end,
}
