--- How far apart the uses of an operator's operands lie in a training step: through how many bytes it goes from one use
--- of a tensor to the next (its reuse distance, Mattson et al. 1970), from which follows what of it caches still hold
--- (ett.validate.retention). A step of ett.validate.model is walked by a back end that computes nothing and keeps the
--- order of uses.
local schema = require "ett.base.schema"
local model = require "ett.validate.model"

local validate_reuse = {}

local Tensor = {}
Tensor.__index = Tensor
function Tensor:__len() return self.count end
function Tensor:view(_, count) return setmetatable({ count = count, parts = self.parts, walk = self.walk }, Tensor) end
function Tensor:copy(other)
  self.walk:use(other.parts)
  self.walk:use(self.parts)
end
function Tensor.fill() end
function Tensor.set() end
function Tensor.get() return 0.0 end

local Walk = {}
Walk.__index = Walk

--- A tensor that is one piece.
function Walk:tensor(count)
  local t = setmetatable({ count = count, walk = self }, Tensor)
  t.parts = { t }
  return t
end

--- A tensor made of others.
function Walk:joined(parts)
  local t = self:tensor(0)
  t.parts = parts
  for _, part in ipairs(parts) do t.count = t.count + part.count end
  return t
end

function Walk:hold(t, list)
  local count, weights, gradients = 0, {}, {}
  for i, entry in ipairs(list) do
    count = count + entry.count
    entry.w, entry.g = self:tensor(entry.count), self:tensor(entry.count)
    weights[i], gradients[i] = entry.w, entry.g
  end
  t.parameter_count, t.gradients = count, self:joined(gradients)
  t.optimizer_state = { weights = self:joined(weights), gradients = t.gradients, first = self:tensor(count),
    second = self:tensor(count) }
end

function Walk:attention_state(t)
  self.scratch = self.scratch or self:tensor(2 * t.plan.seq * t.plan.seq)
  return self.scratch
end
function Walk:entropy_state(t) return self:tensor(t.z.tokens) end
function Walk:rotation(t) return self:tensor(t.plan.seq * t.z.head_dim) end
function Walk:inputs(t, a)
  a.ids, a.targets, a.loss = self:tensor(t.z.tokens), self:tensor(t.z.tokens), self:tensor(t.z.tokens)
end
function Walk.feed() end
function Walk.end_group() end
function Walk.book_loss() end
function Walk.step(_, t) t:walk() end

--- Bytes gone through from a piece's last use to this one: of all pieces that the call which used it last and those
--- since have used.
function Walk:distance(piece)
  local bytes = 0.0
  for at = #self.uses, 1, -1 do
    local use = self.uses[at]
    if use.call < (self.last[piece] or 0) then break end
    bytes = bytes + 4.0 * use.piece.count
  end
  return bytes
end

--- Each piece that a call uses comes last, of all pieces ever used.
function Walk:use(pieces)
  local now = {}
  for _, piece in ipairs(pieces) do now[piece] = true end
  local left = 0
  for at, use in ipairs(self.uses) do
    if not now[use.piece] then
      left = left + 1
      self.uses[left] = self.uses[at]
    end
  end
  for at = #self.uses, left + 1, -1 do self.uses[at] = nil end
  self.calls = self.calls + 1
  for _, piece in ipairs(pieces) do
    if now[piece] then self.uses[#self.uses + 1] = { piece = piece, call = self.calls } end
    now[piece], self.last[piece] = nil, self.calls
  end
end

function Walk:run(_, name, _, pass, operands)
  local pieces, elements, sum = {}, 0, 0.0
  for _, key in ipairs(schema.keys(operands)) do -- in one order: sums of floats depend on it
    table.move(operands[key].parts, 1, #operands[key].parts, #pieces + 1, pieces)
  end
  for _, piece in ipairs(pieces) do
    elements = elements + piece.count
    sum = sum + piece.count * self.far(self:distance(piece))
  end
  self:use(pieces)
  local key = name .. " " .. pass
  local mean = self.means[key] or { sum = 0.0, calls = 0 }
  self.means[key] = mean
  mean.sum, mean.calls = mean.sum + sum / elements, mean.calls + 1
end

--- A group of so many ranks of which only this one is there: what passes through its memory is used.
local function group(walk, size)
  local function use(_, tensor) walk:use(tensor.parts) end
  return { size = function() return size end, send = use, receive = use, exchange = function(_, out, into)
    walk:use(out.parts)
    walk:use(into.parts)
  end, run = function(_, _, tensor) walk:use(tensor.parts) end }
end

--- Of every pass of an operator in the steps of a case, the mean over its calls and over the bytes of its operands of
--- what `far` says of their reuse distance.
---@param case table hyper, plan (of ett.validate)
---@param far fun(bytes: number): number
---@return fun(name: string, pass: string): number of one that the step does not have: far(math.huge)
function validate_reuse.of(case, far)
  local means, p = {}, case.plan
  for stage = 0, p.pp - 1 do
    local walk = setmetatable({ uses = {}, last = {}, calls = 0, far = far, means = {} }, Walk)
    local degrees = { p.tp, p.dp, p.pp } -- in the order of ett.validate.model.groups
    local job = { rank = stage * p.tp * p.dp,
      world = { split = function() return group(walk, table.remove(degrees, 1)) end } }
    local t = model.new { hyper = case.hyper, plan = p, job = job, backend = walk }
    t:step()
    walk.means = means -- the second step meets what the first has left
    t:step()
  end
  return function(name, pass)
    local mean = means[name .. " " .. pass]
    return mean and mean.sum / mean.calls or far(math.huge)
  end
end

return validate_reuse
