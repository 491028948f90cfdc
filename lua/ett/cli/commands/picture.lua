--- `ett picture`: an animated HTML page of a batch's matrix products and communication.
local names = { "layers", "pp", "dp", "tp", "microbatches", "width", "hidden", "batch" }
local help = { layers = "layers, of two matrices each", pp = "pipeline stages", dp = "replicas", tp = "tensor slices",
  microbatches = "microbatches per replica", width = "model width in the drawing",
  hidden = "hidden width in the drawing", batch = "samples in the drawing" }
local options = { { "output", "FILE", "write the page to FILE (default: print it); missing folders are made",
  short = "o" } }
for _, name in ipairs(names) do
  options[#options + 1] = { name, "N", help[name], kind = "count", most = 4096 }
end

return {
  name = "picture",
  summary = "draw a batch's matrix products and communication in 3-D, as one HTML page",
  usage = "picture [--layers N] [--pp N] [--dp N] [--tp N] [--microbatches N] -o FILE.html",
  options = options,
  words = false,
  run = function(opts)
    local given = {}
    for _, name in ipairs(names) do given[name] = opts[name] end
    local page = require("ett.ledger.picture").page(given)
    if not opts.output then
      io.write(page)
      return 0
    end
    require("ett.base.folder").write_with_folder(opts.output, page)
    require "ett.cli.wrote"(opts, opts.output)
  end,
}
