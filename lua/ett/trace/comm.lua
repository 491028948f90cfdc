--- Classifies communication: the collective of a row, and its bytes.
--
-- A device row is communication when its name matches a pattern of a library in lua/ett/trace/communication/*.lua of
-- any root (ett.base.find). On TPU the row's hlo_category decides, else the opcode of its HLO text. The op's name is
-- not used (JAX calls an all-reduce "psum.12"), nor is the word "reduce" alone.
--
-- Bytes follow nccl-tests (doc/PERFORMANCE.md of that project): S is
--   all-reduce, reduce, broadcast, send/recv: bytes of one rank's message;
--   all-gather: bytes that a rank receives (ranks x its own part);
--   reduce-scatter, all-to-all: bytes that a rank sends;
-- algorithm bandwidth = S / t, bus bandwidth = algorithm bandwidth x factor(kind, n).
local collectives = require "ett.comm"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local names = require "ett.base.collective"
local schema = require "ett.base.schema"

local comm = {}

--- Args of TPU rows that tell communication from compute.
comm.args = { "hlo_category", "long_name" }

local libraries, generation
local added = {} -- libraries of comm.add

local library_fields = { name = "string?", summary = "string?", source = "string?", patterns = "list", kinds = "list?",
  except = "list?", dimension = "string?" }

local function checked(library, label)
  schema.check(library, library_fields, label)
  for _, field in ipairs{ "patterns", "except" } do
    for i, pattern in ipairs(library[field] or {}) do
      if type(pattern) ~= "string" or not pcall(string.find, pattern, pattern) then
        error_module.raise("model", "%s: %s[%d] must be a Lua pattern, got %s", label, field, i,
          schema.describe(pattern))
      end
    end
  end
  for i, rule in ipairs(library.kinds or {}) do
    if type(rule) ~= "table" or type(rule[1]) ~= "string" or type(rule[2]) ~= "string" then
      error_module.raise("model", '%s: kinds[%d] must be { PATTERN, KIND }, e.g. { "swap", "all_to_all" }', label, i)
    end
  end
  return library
end

--- The known communication libraries: array of {name, patterns, kinds?}, sorted by name.
function comm.libraries()
  if generation == find.generation then return libraries end
  local list = {}
  for _, entry in ipairs(find.list "lua/ett/trace/communication") do
    local library = checked(find.load_file(entry.path), entry.path)
    library.name = library.name or entry.name
    list[#list + 1] = library
  end
  libraries, generation = table.move(added, 1, #added, #list + 1, list), find.generation -- only if no file is faulty
  return libraries
end

--- Adds a library for this run: comm.add{ name = "mine", patterns = {"^my_allreduce"} }.
function comm.add(library)
  table.insert(comm.libraries(), checked(library, "ett.trace.comm.add"))
  added[#added + 1] = library
end

--- Whether a name matches one of some patterns.
function comm.any_found(name, patterns)
  for _, pattern in ipairs(patterns) do if name:find(pattern) then return true end end
  return false
end

--- The library whose pattern the kernel's name matches, or nil.
---@param name string name of a device row
function comm.library_of(name)
  for _, library in ipairs(comm.libraries()) do
    if comm.any_found(name, library.patterns) and not comm.any_found(name, library.except or {}) then
      return library
    end
  end
  return nil
end

--- The longest literal substring that every match of a Lua pattern contains, in lower case ("" if none).
local function plain_part(pattern)
  local best, run, at = "", "", pattern:sub(1, 1) == "^" and 2 or 1
  local function close()
    if #run > #best then best = run end
    run = ""
  end
  while at <= #pattern do
    local set = pattern:match("^%[%a%a%]", at)
    local letter = set and set:sub(2, 2):lower() == set:sub(3, 3):lower() and set:sub(2, 2)
      or pattern:match("^%%(%p)", at) or pattern:match("^[%w_:<>, ]", at)
    local width = set and 4 or pattern:sub(at, at) == "%" and 2 or 1
    local repeated = pattern:sub(at + width, at + width)
    if letter and not repeated:find("[*?+%-]") then
      run, at = run .. letter:lower(), at + width
    elseif not set and pattern:find("^[%[%(%)%%]", at) then
      return #best > #run and best or run -- sets and captures end the scan
    else
      close()
      at = at + width
    end
  end
  close()
  return best
end

--- Words such that every name of a communication kernel contains one of them; nil if some pattern has none.
function comm.words()
  local words = {}
  for _, library in ipairs(comm.libraries()) do
    for _, pattern in ipairs(library.patterns) do
      local word = plain_part(pattern)
      if #word < 4 then return nil end
      words[#words + 1] = word
    end
  end
  return words
end

-- Longer words first: "reduce" is tried after "allreduce".
local words = {
  { "reducescatter", "reduce_scatter" }, { "allreduce", "all_reduce" }, { "allgather", "all_gather" },
  { "alltoall", "all_to_all" }, { "all2all", "all_to_all" }, { "broadcast", "broadcast" }, { "bcast", "broadcast" },
  { "collectivepermute", "send_recv" }, { "sendrecv", "send_recv" }, { "barrier", "barrier" },
  { "send", "send" }, { "recv", "recv" }, { "reduce", "reduce" }, { "scatter", "scatter" }, { "gather", "gather" },
  { "permute", "send_recv" },
}

--- The kind of a collective from any text that names it ("_allgather_base", "nccl:all_to_all",
--- "ncclDevKernel_AllReduce_Sum_f16_RING_LL(...)", "all-reduce"), or nil.
function comm.kind_of(text)
  if type(text) ~= "string" then return nil end
  local plain = text:lower():gsub("[^%w]", "")
  for _, word in ipairs(words) do if plain:find(word[1], 1, true) then return word[2] end end
  return nil
end

--- The kind of the kernel itself, by its name; "other" if unknown. It may differ from the collective that the program
--- called: NCCL runs an all-to-all as a SendRecv kernel.
---@param name string name of a device row that is communication
function comm.kernel_type(name)
  local library = comm.library_of(name)
  for _, rule in ipairs(library and library.kinds or {}) do
    if name:find(rule[1]) then return comm.kind_of(rule[2]) or rule[2] end
  end
  return comm.kind_of(name) or "other"
end

local tpu_opcodes = { "^all%-reduce", "^all%-gather", "^reduce%-scatter", "^all%-to%-all", "^ragged%-all%-to%-all",
  "^collective%-", "^send", "^recv", "^all%-reduce%-scatter" }

--- Whether an XLA category or opcode is communication.
---@param word string hlo_category or opcode
function comm.is_tpu_opcode(word) return type(word) == "string" and comm.any_found(word, tpu_opcodes) end

--- Opcode of an HLO instruction's text: "%psum.8 = bf16[8]{0} all-reduce(...)" -> "all-reduce".
---@param text string? the long_name of a row
function comm.opcode(text)
  if type(text) ~= "string" then return nil end
  local right = text:match("^%%?[^=]* = (.*)$") or text
  if right:sub(1, 1) == "(" then -- a tuple shape: skip to its closing bracket
    local shape = right:match("^%b()")
    right = shape and right:sub(#shape + 1) or right
  else
    right = right:gsub("^%S+", "", 1)
  end
  return right:match("^%s*([%w%-]+)%(")
end

local dtype_bytes = {
  Float = 4, Half = 2, BFloat16 = 2, -- as PyTorch writes them; all others in small letters
  float = 4, ["c10::half"] = 2, half = 2, ["c10::bfloat16"] = 2, bfloat16 = 2, double = 8, byte = 1, char = 1, bool = 1,
  short = 2, int = 4, long = 8, ["long int"] = 8, ["unsigned char"] = 1, ["signed char"] = 1, uint8 = 1, int8 = 1,
  int16 = 2, int32 = 4, int64 = 8, uint16 = 2, uint32 = 4, uint64 = 8, float16 = 2, float32 = 4, float64 = 8,
  complexfloat = 8, complexdouble = 16, fp8 = 1,
  pred = 1, s8 = 1, u8 = 1, s16 = 2, u16 = 2, s32 = 4, u32 = 4, s64 = 8, u64 = 8, bf16 = 2, f16 = 2, f32 = 4,
  f64 = 8, c64 = 8, c128 = 16, s4 = 0.5, u4 = 0.5,
}

--- Bytes of one element of a dtype by its name in PyTorch, NCCL or XLA, or nil.
function comm.dtype_bytes(name)
  if type(name) ~= "string" then return nil end
  if dtype_bytes[name] then return dtype_bytes[name] end
  local lower = name:lower()
  if lower:match("float8") or lower:match("^f8") or lower:match("fp8") then return 1 end
  return dtype_bytes[lower]
end

--- Larger numbers of elements are invalid.
comm.most_elements = 2.0 ^ 53

--- Number of elements of the tensors in an "Input Dims" text: "[[[4,2048],[8]],[]]" -> 8200. nil without a shape, for a
--- negative number, or if the product exceeds comm.most_elements.
function comm.elements(text)
  if type(text) ~= "string" then return nil end
  local total
  for dims in text:gmatch("%[([%d%s,]+)%]") do
    local product
    for number in dims:gmatch("%d+") do product = (product or 1) * (tonumber(number) + 0.0) end
    if product then total = (total or 0) + product end
  end
  if text:find("-", 1, true) or (total or 0) > comm.most_elements then return nil end
  return total
end

--- Elements of the first two tensors of an "Input Dims" text: "[[65536,384],[8192,384],[]]" -> 25165824, 3145728.
function comm.first_elements(text)
  if type(text) ~= "string" then return nil end
  local found = {}
  for dims in text:gmatch("%[([%d%s,]+)%]") do
    if #found < 2 then found[#found + 1] = comm.elements("[" .. dims .. "]") end
  end
  return found[1], found[2]
end

--- Bytes of an XLA shape text: "bf16[1024,5120]{1,0:T(8,128)}" or a tuple of them; nil otherwise.
function comm.shape_bytes(text)
  if type(text) ~= "string" then return nil end
  local total
  for dtype, dims in text:gmatch("(%l+%d*%w*)%[([%d,]*)%]") do
    local size = comm.dtype_bytes(dtype)
    if size then
      local product = size
      for number in dims:gmatch("%d+") do product = product * (tonumber(number) + 0.0) end
      total = (total or 0) + product
    end
  end
  if (total or 0) > 8 * comm.most_elements then return nil end
  return total and (math.tointeger(total) or total)
end

--- Ranks of an XLA replica_groups text: "[1,2]<=[2]" -> 2, "{{0,1},{2,3}}" -> 2; nil when absent.
function comm.replica_group_size(text)
  if type(text) ~= "string" then return nil end
  local _, size = text:match("replica_groups=%[(%d+),(%d+)%]")
  if size then return tonumber(size) end
  local first = text:match("replica_groups={{([%d,]+)}")
  if not first then return nil end
  local count = 0
  for _ in first:gmatch("%d+") do count = count + 1 end
  return count
end

--- Kinds of which a rank sends, or receives, one of n parts of the message.
comm.gathers = { all_gather = true, gather = true }
comm.scatters = { reduce_scatter = true, scatter = true }

--- Kinds of messages between two ranks.
comm.between_two = { send_recv = true, send = true, recv = true }

--- Message size S of nccl-tests, in bytes, or nil if the elements or dtype are unknown.
---@param elements_in number? elements that one rank sends
---@param elements_out number? elements that one rank receives
---@param n integer? ranks of the group
function comm.message_bytes(kind, elements_in, elements_out, dtype, n)
  local size = comm.dtype_bytes(dtype)
  if not size then return nil end
  if comm.gathers[kind] then
    local elements = elements_out or (elements_in and n and elements_in * n)
    return elements and elements * size
  end
  local elements = elements_in or elements_out
  return elements and elements * size
end

--- The kind of ett.comm whose algorithm moves the same number of bytes; a reduce is a reversed broadcast. The root of a
--- gather or scatter moves (n - 1) / n of the message, as a rank of an all-gather (nccl-tests: GatherGetBw and
--- ScatterGetBw).
local like = { send = "send_recv", recv = "send_recv", reduce = "broadcast", gather = "all_gather",
  scatter = "all_gather" }

--- Bus bandwidth / algorithm bandwidth; nil if the kind has no factor or n is unknown.
function comm.bus_factor(kind, n)
  kind = like[kind] or kind
  if not n or n < 1 or names.find(kind) ~= kind then return nil end
  return collectives.factor(kind, n)
end

--- Latency steps and volume (as a multiple of S) of the ring algorithm of a kind on n ranks,
--- as in Thakur, Rabenseifner, Gropp (2005): T = steps * alpha + volume * S * beta. Nil for gathers and scatters, which
--- have no ring.
function comm.ring(kind, n)
  local volume = comm.bus_factor(kind, n)
  if not volume or kind == "gather" or kind == "scatter" then return nil end
  if kind == "all_reduce" then return 2 * (n - 1), volume end
  if comm.between_two[kind] then return 1, volume end
  return n - 1, volume
end

return comm
