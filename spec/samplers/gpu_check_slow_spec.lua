--- Outputs checked within campaigns of the CUDA back end, on the stand-in GPU that computes.
local ended = require("command").ended
local stand_in = require "stand_in"

if not require("needs").gpu(stand_in.missing(), "outputs of the CUDA back end", _ENV) then return end

local folder = stand_in.each_folder(_ENV)

-- y = 2.5 x, with a mistake or without.
local function own(factor, reference)
  stand_in.write(folder, "own.lua", ([[
    local op = { name = "own", summary = "mine", family = "elementwise", passes = { "forward" },
      schema = { n = "count" } }
    function op.shape(c) return { n = c.hidden } end
    function op.flops(s) return s.n + 0.0 end
    function op.bytes(s) return 8.0 * s.n end
    op.cuda = 'extern "C" __global__ void own_forward(const T *x, T *scaled, long long n) {\n'
      .. '  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n'
      .. '  if (i < n) store(scaled, i, load(x, i) * %s);\n}\n'
    %s
    function op.kernel(k, s)
      local x, y = k.tensor { s.n }, k.tensor { s.n }
      k.kernel { name = "own_forward", grid = (s.n + 255) // 256, block = 256, args = { x, y, s.n } }
    end
    return op
  ]]):format(factor, reference and [[op.doubles = { own_forward = function(x, scaled)
      for i, v in ipairs(x) do scaled[i] = 2.5 * v end
    end }]] or ""))
end

local function sample(options)
  return stand_in.run(folder, "sample mine.lua --out s --quiet" .. (options or ""), stand_in.computing())
end

local function table_text() return stand_in.read(folder, "s/Stand-In90_own_bf16.csv") end

describe("outputs of the CUDA back end", function()
  before_each(function()
    stand_in.write(folder, "mine.lua", "return { name = 'mine', backend = 'cuda', precision = 'bf16', min_repeats = 3, "
      .. "max_repeats = 3, samples = { { operator = 'own', shapes = { n = { 40, 80 } } } } }\n")
  end)

  it("that are wrong stop the operator's rows with one sentence, until it is mended", function()
    own("(i == 7 ? 3.5f : 2.5f)", true)
    local out = ended(1, sample())
    assert.matches("0 measured, 2 failed", out)
    local sentence = "own forward in bf16 computes a wrong result: tensor 2 'scaled' of own_forward, element 8 of 24, "
    assert.is_truthy(out:find(sentence, 1, true), out)
    assert.is_truthy(table_text():find("\n#! failed: all: wrong: " .. sentence, 1, true), table_text())
    own("2.5f", true)
    assert.matches("2 measured, 0 failed", ended(0, sample " --retry-failed"))
  end)

  it("of a kernel without a reference are not checked, as the header says", function()
    own("2.5f", false)
    ended(0, sample())
    assert.matches("\n# checked: no: forward: kernel 'own_forward' has no reference in double precision %(field "
      .. "'doubles'%)\n", table_text())
  end)

  for _, precision in ipairs { "bf16", "fp32", "fp8" } do
    it("are right for every operator of the library in " .. precision, function()
      -- The stand-in computes no fp16: its conversions are instructions of a GPU.
      stand_in.write(folder, "all.lua", ([[
        local check, find, operator = require "ett.sampling.check", require "ett.base.find", require "ett.operator"
        local c = { tp = 1, cp = 1, ep = 1, micro_batch = 2, seq = 2048, hidden = 4096, heads = 32, kv_heads = 8,
          head_dim = 128, ffn = 11008, moe_ffn = 256, vocab = 32000, experts = 8, top_k = 2, layers = 2, causal = true,
          gated_mlp = true, dtype = "bf16", kv_lora_rank = 64, q_lora_rank = 64, qk_rope_head_dim = 16,
          qk_nope_head_dim = 32, v_head_dim = 128, linear_key_heads = 2, linear_value_heads = 4, patch_size = 4,
          index_heads = 16, index_head_dim = 16, index_top_k = 8, moe_latent = 16, conv_in = 16, conv_out = 16,
          conv_outputs = 64, conv_size = 9 }
        local session = assert(find.load("samplers", "cuda").open { precision = %q })
        for _, op in ipairs(operator.list()) do
          if op.kernel then print(op.name .. ": " .. check.operator(session, op, op.shape(c), %q).text) end
        end
        session.close()
      ]]):format(precision, precision))
      local out = ended(0, stand_in.run(folder, "run all.lua", stand_in.computing()))
      local checked = 0
      for name, text in out:gmatch("([%w_]+): ([^\n]+)") do
        local worst = tonumber(text:match("^yes, worst relative error (%S+) at"))
        if worst then
          checked = checked + 1
          assert.is_true(worst < (precision == "fp32" and 1e-5 or 1e-2), out)
        else
          assert(name == "ett", name .. ": " .. text)
        end
      end
      assert.equal(#require("measured_operators").list(), checked, out)
    end)
  end

  it("may be written and read in every precision", function()
    stand_in.write(folder, "numbers.lua", [[
      local doubles = require "ett.operator.doubles"
      local device <close> = assert(require("ett.cuda").open(0))
      local work <close> = assert(device:work "fp16")
      local values = { 1 / 3, -1 / 3, 65504.0, 1e-5, -3e-8, 2049.0, 2051.0, 0.0, 1.0009765625 }
      for _, dtype in ipairs { "fp32", "bf16", "fp16" } do
        local tensor = assert(work:tensor { #values, dtype = dtype })
        assert(work:write(tensor, values))
        for i, got in ipairs(assert(work:read(tensor))) do
          local want = doubles.round(values[i], dtype)
          assert(got == want, ("%s: %.17g, must be %.17g"):format(dtype, got, want))
        end
      end
      local bytes = assert(work:tensor { 4, dtype = "fp8", fill = "zero" })
      assert(work:write(bytes, { 1 / 512, 0.0, -1.05, 300.0 }))
      print(table.concat(assert(work:read(bytes)), " "))
    ]])
    assert.matches("0.001953125 0.0 %-1.0 288.0", ended(0, stand_in.run(folder, "run numbers.lua", {})))
  end)
end)
