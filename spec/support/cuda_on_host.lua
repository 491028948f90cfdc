--- Runs an operator's CUDA kernels on the host (cuda_host.h) and returns every tensor before and after.
local host = require "ett.host"

local cuda_on_host = {}

--- Whether there is a C++ compiler to do it with.
function cuda_on_host.available()
  return os.execute("g++ --version >/dev/null 2>&1") == true
end

local function literal(value)
  if math.type(value) == "integer" then return ("%dll"):format(value) end
  return ("%.17g"):format(value)
end

local c_types = { fp32 = "float", int64 = "long long", fp8 = "unsigned char" }

--- Deterministic values in about [-1, 1], different for every tensor.
local function values_of(spec, tensor, count)
  local values, state = {}, 12345 + 7919 * tensor
  for i = 1, count do
    state = (state * 1103515245 + 12345) % 2 ^ 31 // 1 | 0
    local u = state / 2 ^ 31
    if spec.fill == "zero" then values[i] = 0
    elseif spec.fill == "index" then values[i] = math.floor(u * spec.high)
    elseif spec.fill == "uniform" then values[i] = 0.25 + 0.75 * u
    else values[i] = 2 * u - 1 end
  end
  return values
end

cuda_on_host.values_of = values_of

---@param set table<integer, number[]>? values instead of the made ones, by tensor number
---@return { before: number[][], after: number[][], launches: table[] }
function cuda_on_host.run(backend, op, s, pass, set)
  local tensors, launches, lines = {}, {}, {}
  local sink = {}
  function sink.tensor(_, spec)
    local count = 1
    for _, dimension in ipairs(spec) do count = count * dimension end
    local type_name = c_types[spec.dtype] or "float"
    tensors[#tensors + 1] = { count = count, type = type_name,
      values = set and set[#tensors + 1] or values_of(spec, #tensors + 1, count) }
    return #tensors
  end
  function sink.kernel(_, launch)
    launches[#launches + 1] = { source = launch.source, name = launch.name, args = launch.args }
    local args = {}
    for i, arg in ipairs(launch.args) do
      args[i] = type(arg) == "table" and ("buffer{tensors[%d]}"):format(arg.tensor) or literal(arg)
    end
    local function dims(d)
      d = type(d) == "table" and d or { d }
      return ("{%du, %du, %du}"):format(d[1], d[2] or 1, d[3] or 1)
    end
    lines[#lines + 1] = ("  run_grid(%s, %s, [&] { %s(%s); });"):format(dims(launch.grid), dims(launch.block),
      launch.name, table.concat(args, ", "))
    return true
  end
  function sink.gemm(_, g)
    launches[#launches + 1] = { name = "gemm", args = g }
    lines[#lines + 1] = ("  multiply((float *)tensors[%d], (float *)tensors[%d], (float *)tensors[%d], %d, %d, %d, %d, "
      .. "%s, %s, %s);"):format(g.a, g.b, g.c, g.m, g.n, g.k, g.batch or 1, tostring(g.trans_a or false),
      tostring(g.trans_b or false), tostring(g.accumulate or false))
    return true
  end
  function sink.attention() error("attention runs in cuDNN, not in a kernel of the operator") end
  backend.record(sink, op, s, pass, "fp32")

  local folder = os.tmpname()
  os.remove(folder)
  os.execute("mkdir -p " .. folder)
  local out = assert(io.open(folder .. "/run.cpp", "w"))
  out:write('#define ETT_DTYPE 2\n#include "', host.prefix, '/stand-in/cuda_host.h"\n', require("ett.cuda").prelude())
  local written = {}
  for _, launch in ipairs(launches) do
    if launch.source and not written[launch.source] then
      written[launch.source] = true
      out:write("\n", launch.source, "\n")
    end
  end
  out:write [[

static void multiply(const float *a, const float *b, float *c, long m, long n, long k, long batch, bool ta, bool tb,
                     bool accumulate) {
  for (long i = 0; i < batch; i++, a += m * k, b += k * n, c += m * n)
    for (long r = 0; r < m; r++)
      for (long s = 0; s < n; s++) {
        double sum = accumulate ? c[r * n + s] : 0.0;
        for (long t = 0; t < k; t++)
          sum += (double)(ta ? a[t * m + r] : a[r * k + t]) * (tb ? b[s * k + t] : b[t * n + s]);
        c[r * n + s] = (float)sum;
      }
}

int main() {
]]
  out:write(("  void *tensors[%d];\n"):format(#tensors + 1))
  for i, tensor in ipairs(tensors) do
    -- Guard elements behind each buffer catch writes past its end.
    out:write(("  { static %s values[%d] = {"):format(tensor.type, tensor.count + 64))
    for j, value in ipairs(tensor.values) do out:write(j > 1 and "," or "", ("%.9g"):format(value)) end
    out:write(("};\n    for (int g = 0; g < 64; g++) values[%d + g] = (%s)77;\n    tensors[%d] = values; }\n"):format(
      tensor.count, tensor.type, i))
  end
  out:write(table.concat(lines, "\n"), "\n")
  for i, tensor in ipairs(tensors) do
    out:write(("  for (long i = 0; i < %d; i++) printf(\"%%.9g\\n\", (double)((%s *)tensors[%d])[i]);\n"):format(
      tensor.count, tensor.type, i))
    out:write(("  for (int g = 0; g < 64; g++) if (((%s *)tensors[%d])[%d + g] != (%s)77) {"):format(
      tensor.type, i, tensor.count, tensor.type),
      (" fprintf(stderr, \"tensor %d was written past its end\\n\"); return 4; }\n"):format(i))
  end
  out:write "  return 0;\n}\n"
  out:close()
  local build = ("g++ -std=c++17 -O1 -w -fsanitize=undefined -fno-sanitize-recover=undefined -o %s/run %s/run.cpp 2>&1")
    :format(folder, folder)
  local compiler = assert(io.popen(build))
  local messages = compiler:read("a")
  if not compiler:close() then error(op.name .. " does not compile on the host: " .. messages) end
  local pipe = assert(io.popen(folder .. "/run 2>&1"))
  local result = { before = {}, after = {}, launches = launches }
  for i, tensor in ipairs(tensors) do
    result.before[i], result.after[i] = tensor.values, {}
    for j = 1, tensor.count do
      local line = pipe:read("l")
      result.after[i][j] = tonumber(line) or error(op.name .. " " .. pass .. ": " .. tostring(line))
    end
  end
  local rest = pipe:read("a")
  local ok = pipe:close()
  os.execute("rm -rf " .. folder)
  if not ok then error(op.name .. " " .. pass .. ": " .. rest) end
  return result
end

return cuda_on_host
