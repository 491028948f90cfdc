--- Bytes of autocast and of foreach, against those that PyTorch's dispatcher counts on the host.
local autocast = require "ett.operator.autocast"
local command = require "command"
local find = require "ett.base.find"
local host = require "ett.host"
local in_step = require "ett.profile.in_step"
local json = require "ett.json"
local measured = require "measured_operators"
local operator = require "ett.operator"
local quote = require("ett.base.shell").quote
local stacks = require "ett.operator.stack"

local python, reason = find.load("samplers", "torch").interpreter()
local tokens, hidden, ffn = 256, 128, 320

local configuration = measured.configuration { tp = 1, micro_batch = 1, seq = tokens, hidden = hidden, ffn = ffn,
  heads = 4, kv_heads = 4, head_dim = hidden // 4, gated_mlp = true }

--- The items of a block of a Llama without attention. Its products of queries, keys and values have one sum.
local function items()
  local list = {}
  for name in ([[rms_norm linear_qkv linear_proj residual_add
    rms_norm linear_up swiglu linear_down residual_add]]):gmatch "[%w_]+" do
    local op = operator.get(name)
    list[#list + 1] = { operator = op, shape = op.shape(configuration) }
  end
  return list
end

describe("precision in PyTorch", function()
  it("moves and stores under autocast, and moves with foreach, the bytes that ett counts", function()
    if not python then return pending(reason) end
    local text, status = command.shell(("%s -B -W ignore %s %d %d %d"):format(quote(python),
      quote(host.root .. "/spec/support/torch_precision.py"), tokens, hidden, ffn))
    assert.equal(0, status, text)
    local r = assert(json.decode(text))
    local stack, list, stored = stacks.get "transformers:autocast", items(), 0
    autocast.mark(list, configuration, stack)
    local moved = { forward = 0, backward = 0 }
    for _, item in ipairs(list) do
      local op = item.operator
      local own = op.activation_bytes and op.activation_bytes(item.shape, "bf16", stack) or 0
      stored = stored + autocast.stored(item, own)
      for pass in pairs(moved) do moved[pass] = moved[pass] + autocast.moved(item, pass, stack) end
    end
    assert.equal(r.autocast.stored - r.plain.stored, stored)
    for pass, bytes in pairs(moved) do -- ett leaves out the weights of norms
      assert.near(r.autocast[pass] - r.plain[pass], bytes, 16 * hidden, pass)
    end
    local old = r.version[1] < 2 or r.version[1] == 2 and r.version[2] < 1
    assert.near(28 + in_step.foreach_bytes + (old and 8 or 0), r.foreach, 0.1)
  end)
end)
