--- What a rank of `ett validate` holds: its sizes under a plan, parameters, activations, scratch.
local sample = require "ett.sample"

local buffers = {}

--- Sizes that one rank sees.
function buffers.sizes(h, p)
  return { tokens = p.micro_batch * p.seq, hidden = h.hidden, heads = h.heads // p.tp, width = h.hidden // p.tp,
    head_dim = h.hidden // h.heads, ffn = 4 * h.hidden // p.tp, vocab = h.vocab // p.tp }
end

--- Bytes that a step of one rank goes through: parameters, gradients and moments, what the backward pass
--- needs of every micro-batch it keeps, logits. What of them the caches still hold when they are met
--- again decides how fast an operator finds its operands.
function buffers.working_bytes(h, p)
  local z = buffers.sizes(h, p)
  local layers = h.layers // p.pp
  local parameters = layers * (4 * z.width + 2 * z.ffn) * h.hidden + (p.pp == 1 and 2 or 1) * z.vocab * h.hidden
  local kept = math.min(p.micro_batches, p.pp) * layers * z.tokens * (4 * z.hidden + 4 * z.width + 2 * z.ffn)
  return 16.0 * parameters + 4.0 * kept + 8.0 * z.tokens * z.vocab
end

--- Views of one flat tensor, handed out one after another.
local function carve(flat)
  local at = 1
  return function(count)
    local view = flat:view(at, count)
    at = at + count
    return view
  end
end

--- Parameters of this rank in one flat buffer, and as many for gradients and moments: the
--- optimizer is one call and the gradient reduction one message.
function buffers.parameters(self)
  local z, h = self.z, self.hyper
  local per_layer = 4 * h.hidden + 4 * z.width * h.hidden + 2 * z.ffn * h.hidden
  local count = self.layers * per_layer
  if self.first then count = count + (z.vocab + 1) * h.hidden end
  if self.last then count = count + 2 * h.hidden + z.vocab * h.hidden end
  self.parameter_count = count
  self.weights, self.gradients = sample.tensor(count), sample.tensor(count)
  self.moment1, self.moment2 = sample.tensor(count), sample.tensor(count)
  local w, g = carve(self.weights), carve(self.gradients)
  local seed = self.seed * 1000 + self.stage * 100
  local function both(n, deviation, rank_seed)
    local pair = { w = w(n), g = g(n) }
    seed = seed + 1
    if deviation then
      pair.w:normal(seed + (rank_seed and 7919 * (1 + self.tp_rank) or 0), deviation)
    else
      pair.w:fill(1)
    end
    return pair
  end
  local function norm()
    local pair = { gain = both(h.hidden), bias = both(h.hidden) }
    pair.bias.w:fill(0)
    return pair
  end
  local deviation = 0.02
  local scaled = deviation / math.sqrt(2 * h.layers) -- GPT-2: residual projections start smaller
  if self.first then self.embedding = both((z.vocab + 1) * h.hidden, deviation, true) end
  self.blocks = {}
  for i = 1, self.layers do
    self.blocks[i] = { norm1 = norm(), qkv = both(3 * z.width * h.hidden, deviation, true),
      proj = both(z.width * h.hidden, scaled, true), norm2 = norm(),
      up = both(z.ffn * h.hidden, deviation, true), down = both(z.ffn * h.hidden, scaled, true) }
  end
  if self.last then
    self.final = norm()
    self.head = both(z.vocab * h.hidden, deviation, true)
  end
end

--- What the backward pass of a micro-batch needs, and scratch that all share.
function buffers.activations(self)
  local z = self.z
  local t = sample.tensor
  local function kept()
    local a = { ids = t(z.tokens), targets = t(z.tokens), x = t(z.tokens * z.hidden), layer = {} }
    for i = 1, self.layers do
      a.layer[i] = { n1 = t(z.tokens * z.hidden), mean1 = t(z.tokens), rstd1 = t(z.tokens),
        qkv = t(z.tokens * 3 * z.width), o = t(z.tokens * z.width), x1 = t(z.tokens * z.hidden),
        n2 = t(z.tokens * z.hidden), mean2 = t(z.tokens), rstd2 = t(z.tokens), u = t(z.tokens * z.ffn),
        g = t(z.tokens * z.ffn), out = t(z.tokens * z.hidden) }
    end
    if self.last then
      a.n = t(z.tokens * z.hidden)
      a.mean, a.rstd, a.lse, a.loss = t(z.tokens), t(z.tokens), t(z.tokens), t(z.tokens)
    end
    return a
  end
  self.kept = {}
  -- 1F1B keeps as many micro-batches as stages still to come.
  for i = 1, math.min(self.plan.micro_batches, self.plan.pp - self.stage) do self.kept[i] = kept() end
  local seq2 = self.plan.seq * self.plan.seq
  self.s = { branch = t(z.tokens * z.hidden), dx = t(z.tokens * z.hidden), dx1 = t(z.tokens * z.hidden),
    dn = t(z.tokens * z.hidden), dbranch = t(z.tokens * z.hidden), dg = t(z.tokens * z.ffn),
    du = t(z.tokens * z.ffn), d_o = t(z.tokens * z.width), dqkv = t(z.tokens * 3 * z.width),
    scratch = t(2 * seq2), incoming = t(z.tokens * z.hidden) }
  if self.last then
    self.s.logits, self.s.dlogits = t(z.tokens * z.vocab), t(z.tokens * z.vocab)
    if self.plan.tp > 1 then
      self.s.all_lse, self.s.own = t(z.tokens * self.plan.tp), t(z.tokens)
    end
  end
  local half = z.head_dim // 2
  self.table = t(2 * self.plan.seq * (half + 1))
  for position = 0, self.plan.seq - 1 do
    for i = 0, half - 1 do
      local angle = position * 10000 ^ (-2 * i / z.head_dim)
      self.table:set(position * half + i + 1, math.cos(angle))
      self.table:set((self.plan.seq + position) * half + i + 1, math.sin(angle))
    end
  end
end

return buffers
