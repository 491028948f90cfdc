--- What a rank of `ett validate` holds: its sizes under a plan, parameters, activations, scratch. The back end
--- of the model (ett.validate.model) makes the tensors.
local buffers = {}

--- Sizes that one rank sees.
function buffers.sizes(h, p)
  return { tokens = p.micro_batch * p.seq, hidden = h.hidden, heads = h.heads // p.tp, width = h.hidden // p.tp,
    head_dim = h.hidden // h.heads, ffn = 4 * h.hidden // p.tp, vocab = h.vocab // p.tp }
end

--- Parameters of this rank, which the back end then holds (weights `w`, gradients `g`) as it likes:
--- groups of { count, group, deviation and seed of normal weights | value of constant ones }.
function buffers.parameters(self)
  local z, h = self.z, self.hyper
  local list, seed, group = {}, self.seed * 1000 + self.stage * 100, nil
  local function both(count, deviation)
    seed = seed + 1
    local entry = { count = count, group = group, deviation = deviation,
      seed = seed + (deviation and 7919 * (1 + self.tp_rank) or 0), value = not deviation and 1 or nil }
    list[#list + 1] = entry
    return entry
  end
  local function norm()
    local pair = { gain = both(h.hidden), bias = both(h.hidden) }
    pair.bias.value = 0
    return pair
  end
  local deviation = 0.02
  local scaled = deviation / math.sqrt(2 * h.layers) -- GPT-2: residual projections start smaller
  if self.first then
    group = {}
    self.embedding = both((z.vocab + self.foreign) * h.hidden, deviation)
  end
  self.blocks = {}
  for i = 1, self.layers do
    group = {}
    self.blocks[i] = { norm1 = norm(), qkv = both(3 * z.width * h.hidden, deviation),
      proj = both(z.width * h.hidden, scaled), norm2 = norm(),
      up = both(z.ffn * h.hidden, deviation), down = both(z.ffn * h.hidden, scaled) }
  end
  if self.last then
    group = {}
    self.final = norm()
    self.head = both(z.vocab * h.hidden, deviation)
  end
  self.backend:hold(self, list)
end

--- What the backward pass of a micro-batch needs, and scratch that all share.
function buffers.activations(self)
  local z, b = self.z, self.backend
  local function t(count) return b:tensor(count) end
  local function statistic() return b:tensor(z.tokens, "fp32") end
  local function kept()
    local a = { x = t(z.tokens * z.hidden), layer = {} }
    for i = 1, self.layers do
      a.layer[i] = { n1 = t(z.tokens * z.hidden), mean1 = statistic(), rstd1 = statistic(),
        qkv = t(z.tokens * 3 * z.width), o = t(z.tokens * z.width), attention = b:attention_state(self),
        x1 = t(z.tokens * z.hidden), n2 = t(z.tokens * z.hidden), mean2 = statistic(), rstd2 = statistic(),
        u = t(z.tokens * z.ffn), g = t(z.tokens * z.ffn), out = t(z.tokens * z.hidden) }
    end
    if self.last then
      a.n, a.mean, a.rstd, a.entropy = t(z.tokens * z.hidden), statistic(), statistic(), b:entropy_state(self)
    end
    b:inputs(self, a)
    return a
  end
  self.kept = {}
  -- 1F1B keeps as many micro-batches as stages still to come.
  for i = 1, math.min(self.plan.micro_batches, self.plan.pp - self.stage) do self.kept[i] = kept() end
  self.s = { branch = t(z.tokens * z.hidden), dx = t(z.tokens * z.hidden), dx1 = t(z.tokens * z.hidden),
    dn = t(z.tokens * z.hidden), dbranch = t(z.tokens * z.hidden), dg = t(z.tokens * z.ffn),
    du = t(z.tokens * z.ffn), d_o = t(z.tokens * z.width), dqkv = t(z.tokens * 3 * z.width) }
  if self.plan.pp > 1 then
    self.s.incoming, self.s.grad_in = t(z.tokens * z.hidden), t(z.tokens * z.hidden)
  end
  if self.last then
    self.s.logits, self.s.dlogits = t(z.tokens * z.vocab), t(z.tokens * z.vocab)
    if self.plan.tp > 1 then
      self.s.top, self.s.target, self.s.sum = statistic(), statistic(), statistic()
    end
  end
  self.rotation = b:rotation(self)
end

--- Angles by which rotary positions turn a pair of elements: angle(position from 0, pair from 0).
function buffers.angle(position, pair, head_dim) return position * 10000 ^ (-2 * pair / head_dim) end

return buffers
