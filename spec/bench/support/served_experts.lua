--- Layers of experts as ett serves them for a single kernel, against TensorRT-LLM's fused layers.
--
-- A fused layer sorts and copies tokens, computes two grouped products with an activation between them, and sums the
-- copies. The estimate is the sum of these operators measured alone. No row of these tables is fitted to: ett fits
-- products only. The products alone are 10 to 40 % below the fused layers, which contain the other kernels. In 8 and 4
-- bits fused layers quantise inside their other kernels; training does not, and ett counts quantisation with each
-- product.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local device_times = require "ett.profile.device_times"
local devices = require "ett.profile.device"
local kernel_tables = require "kernel_tables"
local kernels = require "ett.profile.kernels"
local moe = require "moe_kernel"

local stream_share = require("ett.profile.in_step").stream_share

local served_experts = {}

-- Sorting, offsets and their launches; assumed. The estimate has the starts of all other kernels.
local sorting = 3 * 2e-6

--- Seconds of a fused layer of bf16 experts on one rank.
---@param times table of device_times
---@param x table row of moe_forward.csv
function served_experts.seconds(times, x)
  local load = moe.load(x)
  local gates = x.kernel:find("nongated", 1, true) and 1 or 2
  local copies, width = math.tointeger(load.copies), x.ffn // x.tp
  local batch, rows = math.tointeger(load.used), copies // load.used
  local sum = sorting
  local function add(name, shape) sum = sum + times:operator(name, shape, "bf16", "forward").seconds end
  local share = math.max(1, copies // x.top_k) -- tokens of the group that reach this rank, top_k copies each
  add("moe_permute", { tokens = share, hidden = x.hidden, top_k = x.top_k })
  add("expert_linear1", { batch = batch, tokens = rows, in_features = x.hidden, out_features = gates * width })
  add(gates == 2 and "swiglu" or "gelu", { tokens = copies, width = width })
  add("expert_linear2", { batch = batch, tokens = rows, in_features = width, out_features = x.hidden })
  add("moe_unpermute", { tokens = share, hidden = x.hidden, top_k = x.top_k })
  -- The fused layer clears and writes a row for every token of the expert-parallel group.
  local others = 2 * 2.0 * math.max(0, x.tokens - share) * x.hidden
  return sum + others / (times.device.memory_bandwidth * stream_share)
end

-- Balanced bf16 rows of TensorRT-LLM with whole numbers of at least 16 tokens an expert.
local function rows_of(folder, device)
  local kept = {}
  for _, row in ipairs(kernels.read(moe, folder, device) or {}) do
    if row.framework == "trtllm" and row.dtype == "bf16" and row.routing == "balanced" then
      local load = moe.load(row)
      local whole = load.copies % load.used == 0 and load.copies % 1 == 0 and row.ffn % row.tp == 0
      if whole and load.copies // load.used >= 16 then
        for _, name in ipairs(moe.inputs) do row[name] = math.tointeger(row[name]) end
        kept[#kept + 1] = row
      end
    end
  end
  return kept
end

--- Errors by device: { key, count, error (mean of the absolute error), bias (mean signed error) }.
function served_experts.errors(folder)
  local found = {}
  for _, key in ipairs(kernel_tables.nvidia) do
    local device = devices.get(key)
    local rows, times = rows_of(folder, device), device_times.new(device):at_burst()
    local sum, signed = 0.0, 0.0
    for _, row in ipairs(rows) do
      local off = served_experts.seconds(times, row) / row.seconds - 1
      sum, signed = sum + math.abs(off), signed + off
    end
    if rows[1] then
      found[#found + 1] = { key = key, count = #rows, error = sum / #rows, bias = signed / #rows }
    end
  end
  return found
end

return served_experts
