--- Laws of linear attention against measured kernels of whole sequences: the shared tables, if available.
local files = { { "h100_sxm", "H100" }, { "h200_sxm", "H200" }, { "b200_sxm", "B200" } }

local function number(text) return math.tointeger(tonumber(text)) end

--- The rows of a device: shape of the operator and measured seconds.
local function rows_of(path, operator, framework)
  local table_of = require("ett.csv").read(path)
  if not table_of then return nil end
  local kernels, frameworks, layers = table_of:strings "kernel", table_of:strings "framework", table_of:strings "layer"
  local function column(name) return table_of:numbers(name) end
  local us, batch, seq, taps = column "time_us", column "batch", column "seq", column "d_conv"
  local keys, key_dim, heads, value_dim = column "num_k_heads", column "head_k_dim", column "num_v_heads",
    column "head_v_dim"
  local wanted = operator == "mixer_conv" and "causal_conv1d_fn" or "chunk_gated_delta_rule"
  local rows = {}
  for i = 1, #us do
    if kernels[i] == wanted and frameworks[i] == framework and layers[i] == "gdn" then
      local shape = operator == "mixer_conv" and { tokens = number(batch[i] * seq[i]), taps = number(taps[i]),
        channels = number(2 * keys[i] * key_dim[i] + heads[i] * value_dim[i]) }
        or { batch = number(batch[i]), seq = number(seq[i]), heads = number(heads[i]), key_heads = number(keys[i]),
          key_dim = number(key_dim[i]), value_dim = number(value_dim[i]), chunk = 64 }
      rows[#rows + 1] = { shape = shape, seconds = us[i] * 1e-6 }
    end
  end
  return rows
end

return {
  summary = "laws of linear attention: error against measured forward kernels",
  run = function()
    local operator, devices = require "ett.operator", require "ett.profile.device"
    local folder = (os.getenv "ETT_REFERENCE" or "../shared/reference") .. "/kernels/"
    local results = {}
    for _, case in ipairs { { "gated_delta_rule", "sglang" }, { "mixer_conv", "sglang" }, { "mixer_conv", "vllm" } } do
      for _, file in ipairs(files) do
        local rows = rows_of(folder .. file[1] .. "/linear_attention_forward.csv", case[1], case[2])
        local errors, op = {}, operator.get(case[1])
        for i, row in ipairs(rows or {}) do
          errors[i] = math.abs(op.law(row.shape, devices.get(file[1]), "forward") / row.seconds - 1)
        end
        table.sort(errors)
        if #errors > 0 then
          results[#results + 1] = { measure = ("%s, %s, %s: median, p90 of %d"):format(case[1], case[2], file[2],
            #errors), value = ("%.1f %%, %.1f %%"):format(100 * errors[#errors // 2 + 1],
            100 * errors[#errors * 9 // 10]) }
        end
      end
    end
    if #results == 0 then results[1] = { measure = "no table at " .. folder, value = "-" } end
    return results
  end,
}
