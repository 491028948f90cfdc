--- Rotary position embedding of queries and keys (Su et al. 2021).
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "rope", aliases = { "rotary" }, family = "rope", summary = "rotary position embedding" }

-- scaled: 1 if the rotation also scales (YaRN). joined: values of a token that splitting and joining heads moves.
op.schema = { batch = "count", seq = "count", heads = "count", kv_heads = "count", head_dim = "count",
  rotary_dim = "count", scaled = "natural?", joined = "count?" }

op.constraints = {
  { "heads must be divisible by kv_heads", function(s) return s.heads % s.kv_heads == 0 end },
  { "rotary_dim must be even", function(s) return s.rotary_dim % 2 == 0 end },
  { "rotary_dim must be at most head_dim", function(s) return s.rotary_dim <= s.head_dim end },
}

-- Latent attention, if each join writes its result (MaxText, layers/attention_mla.py: mla_query_projection,
-- mla_get_key_value). The parts of queries without positions are read and written beside the rotated ones. Keys are
-- written with a copy of the rotary key for each head, and values are cut off. The backward pass reverses this.
local function joined(c)
  if not (c.joins_heads and c.kv_lora_rank) then return nil end
  return shapes.local_heads(c) * (4 * c.qk_nope_head_dim + c.qk_rope_head_dim + 2 * c.v_head_dim)
end

function op.shape(c)
  local head_dim = shapes.head_dim(c)
  return { joined = joined(c), batch = c.micro_batch, seq = shapes.divide("seq", c.seq, "cp", c.cp or 1),
    heads = shapes.local_heads(c), kv_heads = shapes.local_kv_heads(c), head_dim = head_dim,
    rotary_dim = math.max(1, math.floor(head_dim * (c.rotary_fraction or 1.0))), scaled = c.scaled_rope and 1 or nil }
end

function op.kernel_shape(s)
  return { rows = s.batch * s.seq, cols = (s.heads + s.kv_heads) * s.rotary_dim,
    heads = s.heads + s.kv_heads, head_dim = s.head_dim }
end

-- Both passes read and write each element once: the backward pass is a rotation too.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 3 },
  backward = { reads = 1, writes = 1, flops = 3 },
})

function op.beside_bytes(s) return 2.0 * s.batch * s.seq * (s.joined or 0) end

--- The rotation is in place: the preceding projection allocated the output. Latent attention copies one rotary key to
--- the keys of all heads.
function op.output_bytes(s, dtype)
  return s.kv_heads == 1 and memory.width(dtype) * (s.batch + 0.0) * s.seq * s.heads * s.head_dim or 0.0
end

op.cuda = [[
// x is [tokens, heads, head_dim] with `row` elements from one token to the next; element d of the first half of
// rotary_dim turns with its partner in the second half by the angle of its token. sign -1 turns back: the backward
// pass. y may be x.
static __device__ void rotate(const T *x, const float *angle, T *y, float sign, long long seq, long long heads,
                              long long head_dim, long long row, long long half, long long n) {
  each_element(i, n) {
    long long d = i % half, vector = i / half;
    long long token = vector / heads, at = token * row + vector % heads * head_dim + d;
    float c, s;
    sincosf(angle[token % seq * half + d], &s, &c);
    float a = load(x, at), b = load(x, at + half);
    store(y, at, a * c - sign * b * s);
    store(y, at + half, b * c + sign * a * s);
  }
}

extern "C" __global__ void rope_forward(const T *x, const float *angle, T *y, long long seq, long long heads,
                                        long long head_dim, long long row, long long half, long long n) {
  rotate(x, angle, y, 1.0f, seq, heads, head_dim, row, half, n);
}

extern "C" __global__ void rope_backward(const T *dy, const float *angle, T *dx, long long seq, long long heads,
                                         long long head_dim, long long row, long long half, long long n) {
  rotate(dy, angle, dx, -1.0f, seq, heads, head_dim, row, half, n);
}
]]

local function rotate(x, angle, y, sign, seq, heads, head_dim, row, half, n)
  for vector = 0, n // half - 1 do
    local token = vector // heads
    for d = 1, half do
      local turn, at = angle[token % seq * half + d], token * row + vector % heads * head_dim + d
      local a, b = x[at], x[at + half]
      y[at] = a * math.cos(turn) - sign * b * math.sin(turn)
      y[at + half] = b * math.cos(turn) + sign * a * math.sin(turn)
    end
  end
end
op.doubles = {
  rope_forward = function(x, angle, y, ...) rotate(x, angle, y, 1, ...) end,
  rope_backward = function(dy, angle, dx, ...) rotate(dy, angle, dx, -1, ...) end,
}

-- One launch for queries and one for keys, as in frameworks. Both may be slices of a packed projection.
function op.kernel(k, s, pass)
  local half = math.max(1, s.rotary_dim // 2)
  local angle = k.tensor { s.seq, half, dtype = "fp32", fill = "uniform" }
  for _, heads in ipairs { s.heads, s.kv_heads } do
    local dims = { s.batch * s.seq, heads, s.head_dim }
    local x, y = k.tensor(dims), k.tensor(dims)
    launch.elements(k, "rope_" .. pass, op.cuda, s.batch * s.seq * heads * half,
      { x, angle, y, s.seq, heads, s.head_dim, x.row or heads * s.head_dim, half })
  end
end

op.torch = [[
q = tensor(s.batch, s.seq, s.heads, s.head_dim)
k = tensor(s.batch, s.seq, s.kv_heads, s.head_dim)
angle = torch.rand(s.seq, s.rotary_dim // 2, device=q.device)
cos, sin = torch.cat((angle, angle), -1).cos().to(q.dtype), torch.cat((angle, angle), -1).sin().to(q.dtype)
def turn(x):
    r, rest = x[..., :s.rotary_dim], x[..., s.rotary_dim:]
    a, b = r.chunk(2, -1)
    return torch.cat((r * cos[:, None] + torch.cat((-b, a), -1) * sin[:, None], rest), -1)
return lambda: torch.cat((turn(q), turn(k)), 2)
]]

return op
