--- What operator files share when they turn an encoder configuration into a shape.
--
-- The configuration `c` is what one device of a plan sees of one layer (operators/README.md lists its fields).
-- The shape `s` that comes out carries plain integers with tp, cp and ep divided in.
local error_module = require "ett.base.error"

local shapes = {}

--- value / degree, which must be whole.
function shapes.divide(what, value, by, degree)
  if value % degree ~= 0 then
    error_module.raise("plan", "%s = %d must be divisible by %s = %d", what, value, by, degree)
  end
  return value // degree
end

--- Tokens of one micro-batch on one context rank.
function shapes.tokens(c)
  return c.micro_batch * shapes.divide("seq", c.seq, "cp", c.cp or 1)
end

--- Tokens that the parts outside tensor-parallel blocks see: split over tp under sequence parallelism.
function shapes.norm_tokens(c)
  local tokens = shapes.tokens(c)
  if c.sequence_parallel then tokens = shapes.divide("tokens of a micro-batch", tokens, "tp", c.tp) end
  return tokens
end

--- Vocabulary padded so that every tensor rank holds a multiple of `multiple` rows (Megatron
--- and NeoX: make_vocab_size_divisible_by = 128).
function shapes.padded_vocab(vocab, tp, multiple)
  local unit = (multiple or 128) * tp
  return (vocab + unit - 1) // unit * unit
end

--- Rows of the padded vocabulary on one tensor rank.
function shapes.local_vocab(c)
  return shapes.padded_vocab(c.vocab, c.tp, c.vocab_multiple) // c.tp
end

--- Key/value heads on one tensor rank: at least one, replicated when tp exceeds them (Megatron).
function shapes.local_kv_heads(c)
  local kv = c.kv_heads or c.heads
  if c.reference then return math.max(1, kv // c.tp) end
  if kv >= c.tp then return shapes.divide("kv_heads", kv, "tp", c.tp) end
  return 1
end

--- Heads on one tensor rank.
function shapes.local_heads(c)
  if c.reference then return math.max(1, c.heads // c.tp) end -- samples hold counts that do not divide
  return shapes.divide("heads", c.heads, "tp", c.tp)
end

--- Width of one head; hidden / heads unless the configuration says.
function shapes.head_dim(c) return c.head_dim or shapes.divide("hidden", c.hidden, "heads", c.heads) end

--- Raises the fields of `c` that an operator cannot do without.
function shapes.need(c, who, ...)
  local missing = {}
  for _, name in ipairs { ... } do
    if c[name] == nil then missing[#missing + 1] = ("'%s'"):format(name) end
  end
  if #missing > 0 then
    error_module.raise("model", "%s needs the field%s %s", who, #missing > 1 and "s" or "",
      table.concat(missing, ", "))
  end
end

--- 1 where a linear has biases, else nil: the first of the named fields of `c` that is given
--- decides, then `bias`.
function shapes.bias(c, ...)
  for _, name in ipairs { ... } do
    if c[name] ~= nil then return c[name] and 1 or nil end
  end
  return c.bias and 1 or nil
end

--- Width of the dense MLP on one tensor rank.
function shapes.local_ffn(c) return shapes.divide("ffn", c.ffn or 4 * c.hidden, "tp", c.tp) end

-- The reference's sample files carry floats and fixed constants: vocabulary 50257 padded to
-- 128 * mp, MLP 4 * dim, as many key/value heads as heads.
shapes.reference_vocab = 50257

--- A field of a reference sample row as an integer.
function shapes.int(value) return math.tointeger(value) or math.floor(value + 0.5) end

--- A row of the reference's sample files as an encoder configuration.
function shapes.reference_configuration(row)
  local int = shapes.int
  local dim = row.dim and int(row.dim)
  local heads = row.h and int(row.h) or 1
  return {
    tp = row.mp and int(row.mp) or 1, cp = 1, ep = 1, micro_batch = row.b and int(row.b) or 1,
    seq = row.l and int(row.l) or 1, hidden = dim or 1, heads = heads, kv_heads = heads,
    head_dim = dim and math.max(1, dim // heads) or 1, ffn = 4 * (dim or 1), vocab = shapes.reference_vocab,
    layers = row.encoders and int(row.encoders) or 1, causal = true, reference = true,
  }
end

--- Raises for a row that no model has: the reference's ranges cross widths, heads and ranks that do not divide.
function shapes.check_reference(row)
  local function whole(what, value, by, degree)
    if value and degree then shapes.divide(what, shapes.int(value), by, shapes.int(degree)) end
  end
  whole("dim", row.dim, "h", row.h)
  whole("h", row.h, "mp", row.mp)
  whole("dim", row.dim, "mp", row.mp)
end

--- `reference` table of an operator file: its sample columns, its names there, and how a row
--- of them becomes a shape (through op.shape, so that both ways stay one).
function shapes.reference(op, columns, names)
  return {
    columns = columns, names = names,
    shape = function(row) return op.shape(shapes.reference_configuration(row)) end,
    check = shapes.check_reference,
  }
end

return shapes
