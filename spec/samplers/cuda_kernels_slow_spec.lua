--- Every operator's CUDA C compiles by NVRTC, with no device; for sm_90 in gpu_check_slow_spec.lua.
local ok, cuda = pcall(require, "ett.cuda")
local error_module = require "ett.base.error"
local probe = 'extern "C" __global__ void probe(T *p) { store(p, 0, 1.0f); }'

local compiled = {} -- cubins by precision, capability and source

--- Compiles every kernel that an operator launches, without a device; returns the number of calls. Raises at the first
--- error, with the compiler's message and line numbers of the operator's file.
local function compile(backend, op, s, pass, precision, capability)
  local calls, sink = 0, {}
  local function add()
    calls = calls + 1
    return calls
  end
  sink.tensor, sink.gemm, sink.attention = function() return 1 end, add, add
  function sink.kernel(_, launch)
    local key = ("%s %d %s"):format(precision, capability, launch.source)
    compiled[key] = compiled[key] or error_module.must(cuda.compile { source = launch.source, label = launch.label,
      first_line = launch.first_line, dtype = precision, capability = capability })
    -- A cubin lists its functions in its string table.
    assert(compiled[key]:find(launch.name, 1, true), op.name .. ": the source has no function " .. launch.name)
    return add()
  end
  backend.record(sink, op, s, pass, precision)
  return calls
end

describe("operators' CUDA kernels", function()
  local measured = require "measured_operators"
  local configuration = measured.configuration { tp = 1, cp = 1, ep = 1, micro_batch = 2, seq = 64, hidden = 128,
    heads = 4, kv_heads = 2,
    head_dim = 32, ffn = 512, moe_ffn = 256, vocab = 1000, experts = 4, top_k = 2, layers = 2, gated_mlp = true,
    q_lora_rank = 96, kv_lora_rank = 64, qk_nope_head_dim = 32, qk_rope_head_dim = 16, v_head_dim = 32,
    causal = true, dtype = "bf16" }

  for _, op in ipairs(measured.list()) do
    it(("of %s are there and compile for sm_80 and sm_100"):format(op.name), function()
      assert.is_function(op.kernel, op.name .. " has no kernel function")
      if not ok then pending("the CUDA back end is not built here: no toolkit headers") return end
      if not cuda.compile { source = probe } then pending("no NVRTC on this machine") return end
      local backend = require("ett.base.find").load("samplers", "cuda")
      for _, capability in ipairs { 80, 100 } do
        for _, pass in ipairs(op.passes) do
          local calls = compile(backend, op, op.shape(configuration), pass, capability == 80 and "fp16" or "bf16",
            capability)
          assert.is_true(calls > 0, op.name .. " launches nothing in " .. pass)
        end
      end
    end)
  end
end)
