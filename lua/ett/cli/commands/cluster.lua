--- `ett cluster init`: writes a cluster file of this machine.
local error_module = require "ett.base.error"

return {
  name = "cluster",
  summary = "write a cluster file from what is found on this machine",
  usage = "cluster init NAME [--backend cpu|cuda] [--out DIR]",
  description = "Finds GPUs, processors, memory, NUMA nodes and network cards, and measures peak rates by short\n"
    .. "probes. On GPUs: products by cuBLASLt in every precision, a copy in memory, a copy to the next GPU.\n"
    .. "Without a GPU: the processors. CUDA_VISIBLE_DEVICES chooses the GPUs.\n"
    .. "The file goes to DIR/NAME.lua; add its folder's parent to ETT_PATH, or name the file itself.",
  options = {
    { "backend", "NAME", "cuda for the GPUs, cpu for the processors (default: cuda where it finds a device)" },
    { "out", "DIR", "folder of the file", default = "clusters" },
    { "json", "print what was found as JSON" },
    { "quiet", "print nothing" },
  },
  run = function(opts, positional)
    if positional[1] ~= "init" or #positional ~= 2 then
      error_module.raise("usage", "cluster: give `init` and a name")
    end
    local path, text = require("ett.sampling.cluster_init").write(positional[2], opts.out, opts.backend)
    if opts.json then
      local described = require("ett.base.find").load_file(path)
      described.path = path
      io.write(require("ett.json").encode(described, { indent = 2 }))
    elseif not opts.quiet then
      io.write(text)
      print("# written to " .. path)
    end
    return 0
  end,
}
