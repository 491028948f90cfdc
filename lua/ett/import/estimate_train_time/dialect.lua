--- Operator names and sample table layout of estimate-train-time (interface: ett.operator.dialect).
--
-- Columns: mp tensor ranks, b micro-batch, h heads, l sequence, dim hidden width, encoders layers. The tables hold
-- floats. The tool fixes the rest: vocabulary, MLP 4 * dim, as many key/value heads as heads, a causal mask.
local shapes = require "ett.operator.shapes"

local dialect = { name = "estimate_train_time", summary = "tables and names of estimate-train-time",
  source = "the sample files and configurations that the tool ships" }

local function int(value) return math.tointeger(value) or math.floor(value + 0.5) end

-- A row as an encoder configuration. In some rows mp does not divide the heads; each rank then has the rounded-down
-- number, at least one.
local function configuration(row)
  local tp, dim = row.mp and int(row.mp) or 1, row.dim and int(row.dim) or 1
  local heads = row.h and int(row.h) or 1
  local shared = row.h and math.max(1, heads // tp) * tp or 1
  return {
    tp = tp, cp = 1, ep = 1, micro_batch = row.b and int(row.b) or 1, seq = row.l and int(row.l) or 1, hidden = dim,
    heads = shared, kv_heads = shared, head_dim = math.max(1, dim // heads), ffn = 4 * dim,
    vocab = require("ett.import.estimate_train_time.composition").vocabulary,
    layers = row.encoders and int(row.encoders) or 1, causal = true,
  }
end

local function shape(op, row) return op.shape(configuration(row)) end

-- Raises for an impossible row: the tool's ranges combine widths, heads and ranks that do not divide.
local function check(row)
  local function whole(what, value, by, degree)
    if value and degree then shapes.divide(what, int(value), by, int(degree)) end
  end
  whole("dim", row.dim, "h", row.h)
  whole("h", row.h, "mp", row.mp)
  whole("dim", row.dim, "mp", row.mp)
end

local function rows(alias, columns)
  return { aliases = { alias }, columns = columns, shape = shape, check = check }
end

local plain, layer, scores, stage = { "mp", "b", "l", "dim" }, { "mp", "b", "h", "l", "dim" }, { "mp", "b", "h", "l" },
  { "mp", "dim", "encoders" }

dialect.operators = {
  bmm_pv = rows("bmm", layer), bmm_qk = rows("baddbmm", layer),
  cross_entropy = rows("parallel_cross_entropy_128", { "mp", "b", "l" }),
  embedding = rows(nil, plain), fill_mask = rows("fillmask", layer), flash_attention = rows("flash_atten", layer),
  gelu = rows(nil, plain), layer_norm = rows("layernorm", { "b", "l", "dim" }), linear_down = rows("linear4", plain),
  linear_proj = rows("linear2", plain), linear_qkv = rows("linear1", plain), linear_up = rows("linear3", plain),
  lm_head = rows("linear_final", plain), masked_softmax = rows("ScaledUpperTriangMaskedSoftmax", scores),
  residual_add = rows("res_add", { "b", "l", "dim" }), rms_norm = rows("RMSlayernorm", { "b", "l", "dim" }),
  rope = rows("RoPE", layer), softmax = rows(nil, scores),
  first_stage_optimizer = rows("firstStage_optimizer", stage),
  middle_stage_optimizer = rows("middleStage_optimizer", stage),
  last_stage_optimizer = rows("lastStage_optimizer", stage),
}

-- These two tables have no column for heads: qkv has 3 * dim / mp columns, proj dim / mp rows.
function dialect.operators.linear_qkv.shape(_, row)
  local c = configuration(row)
  return { tokens = shapes.tokens(c), in_features = c.hidden, out_features = 3 * c.hidden // c.tp }
end

function dialect.operators.linear_proj.shape(_, row)
  local c = configuration(row)
  return { tokens = shapes.tokens(c), in_features = c.hidden // c.tp, out_features = c.hidden }
end

-- moe.yml also varies ranks and widths of the experts, which do not affect routing.
dialect.operators.moe_router = { aliases = { "moe" },
  columns = { "mp", "b", "l", "dim", "moe_num_experts", "intermediate_size", "top_k" },
  shape = function(op, row)
    return require("ett.operator").check_shape(op, { tokens = int(row.b) * int(row.l), hidden = int(row.dim),
      experts = int(row.moe_num_experts), top_k = int(row.top_k) })
  end }

dialect.operators.optimizer = { columns = { "num_layers", "hidden_size", "param_tensors", "params" },
  shape = function(_, row)
    return { params = int(row.params), tensors = int(row.param_tensors), layers = int(row.num_layers),
      hidden = int(row.hidden_size) }
  end }

-- Tables of large messages.
dialect.collectives = { allgather_large = "all_gather", allreduce_large = "all_reduce",
  reducescatter_large = "reduce_scatter" }

-- A plan gives the parameters of an update but not the number of tensors. Uses the samples of the middle stage: one
-- fused update of long tensors, assumed to be a hundred, as in the middle of the sampled stages. (Samples of
-- `optimizer` are from models with short tensors, bound by launches.)
dialect.stand_ins = { optimizer = { lacks = "tensors", operator = "middle_stage_optimizer",
  shape = function(s) return { params = s.params, tensors = 100 } end } }

function dialect.campaign(document, label)
  return require "ett.import.estimate_train_time.campaign"(document, label)
end

return dialect
