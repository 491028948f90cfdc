--- Products of experts: products of one shape, each with its own weight, in one grouped kernel or in one kernel each.
--
-- The analytic time has parts that grow with the tokens. The traffic of the weights, or of their gradients, does not
-- grow. The trees are fitted to single products. A correction of the growing parts comes from long products with the
-- same weight. A correction of the weights' traffic comes from thin products with the weights of all experts. No
-- correction depends on the number of tokens, so that the time never falls with more tokens.
local experts = {}

local exp, log, max = math.exp, math.log, math.max

-- Rows of the long and the thin products. For the gradient of a weight, this is the length of the sum.
local long, thin = { 8192, 16384, 32768 }, { 16, 32, 64 }
local long_sums, thin_sums = { 4096, 8192, 16384 }, { 64, 128 }

-- Geometric means over products of the ratio of the kernel's seconds to the analytic ones, and of its bounds.
local function ratios(kernel, sizes, shape)
  local value, least, most = 0.0, 0.0, 0.0
  for _, size in ipairs(sizes) do
    local x = shape(size)
    local seconds, low, high = kernel:predict(x)
    local analytic = kernel.model.analyse(kernel.device, kernel.dtype, x)
    value, least, most = value + log(seconds / analytic), least + log(low / analytic), most + log(high / analytic)
  end
  return { exp(value / #sizes), exp(least / #sizes), exp(most / #sizes) }
end

-- The corrections of both parts: { value, low, high } each.
local function corrections(kernel, x)
  local id = ("%s %s %s %s"):format(x.batch, x.n, x.sums and x.m or x.k, x.sums)
  local known = kernel.corrections or {}
  kernel.corrections = known
  if not known[id] then
    local function rows(m) return { m = m, n = x.n, k = x.k } end
    local function few_rows(m) return { m = m, n = 1.0 * x.batch * x.n, k = x.k } end
    local function sums(k) return { m = 1.0 * x.batch * x.m, n = x.n, k = k } end
    known[id] = { ratios(kernel, x.sums and long_sums or long, x.sums and sums or rows),
      ratios(kernel, x.sums and thin_sums or thin, x.sums and sums or few_rows) }
  end
  return known[id]
end

-- The rows that a kernel computes which packs the rows of all experts (Megablox). A tile with rows of two experts is
-- computed for both, so there are up to batch - 1 more tiles.
local function packed(x, tile)
  if x.sums then return { batch = x.batch, m = x.m, n = x.n, k = x.k + (1 - 1 / x.batch) * tile } end
  return { batch = 1, m = x.batch * x.m + (x.batch - 1) * tile, n = x.n, k = x.k }
end

--- Seconds of the products of all experts, and the bounds of the 90 % interval.
---@param kernel ett.Kernel of single products
---@param x table { batch, m, n, k, sums (k counts tokens, as in the weight's gradient; else m does) }
---@param how table { ways and cached as in gemm.parts, slower (factor on the growing parts), tile (rows of a tile that
--- several experts share; 0: no tile is shared) }
---@return number seconds, number low, number high
function experts.seconds(kernel, x, how)
  local device, dtype, gemm = kernel.device, kernel.dtype, kernel.model
  local of_growing, of_fixed = table.unpack(corrections(kernel, x))
  local arithmetic, fixed, growing = gemm.parts(device, dtype, x, how)
  if how.tile > 0 then arithmetic = gemm.parts(device, dtype, packed(x, how.tile), how) end
  local start = gemm.start(device, dtype)
  local starts = (how.ways == "apart" and x.batch or 1) * start
  local function corrected(i) -- at least the times at the peak rates
    local of_rows = how.slower * max(gemm.memory_reached, of_growing[i])
    return gemm.time(device, dtype, how.slower * arithmetic * max(gemm.arithmetic_reached, of_growing[i]),
      growing * of_rows + fixed * max(gemm.memory_reached, of_fixed[i])) - start + starts * of_fixed[i] / of_fixed[1]
  end
  return corrected(1), corrected(2), corrected(3)
end

return experts
