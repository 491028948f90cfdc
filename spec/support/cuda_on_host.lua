--- Runs an operator's CUDA kernels on the host (cuda_host.h) and returns every tensor before and after.
--
-- One program holds many kernels; it reads tensors and launches from its input. Compiled programs stay in the folder of
-- the stand-in GPU, named by their content.
local command = require "command"
local host = require "ett.host"
local io_module = require "ett.io"

local cuda_on_host = {}

--- Whether there is a C++ compiler.
function cuda_on_host.available()
  return os.execute("g++ --version >/dev/null 2>&1") == true
end

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

local c_types = { fp32 = "f", int64 = "l", fp8 = "b" }

--- The allocations and launches of a pass of an operator.
local function recorded(backend, op, s, pass)
  local tensors, launches = {}, {}
  local sink = {}
  function sink.tensor(_, spec)
    local count = 1
    for _, dimension in ipairs(spec) do count = count * dimension end
    tensors[#tensors + 1] = { count = count, type = c_types[spec.dtype] or "f", spec = spec }
    return #tensors
  end
  function sink.kernel(_, launch)
    launches[#launches + 1] = launch
    return true
  end
  function sink.gemm(_, g)
    launches[#launches + 1] = { gemm = g }
    return true
  end
  function sink.attention() error("attention runs in cuDNN, not in a kernel of the operator") end
  backend.record(sink, op, s, pass, "fp32")
  return tensors, launches
end

-- Reads "tensor TYPE COUNT VALUE…", "launch KERNEL GRID BLOCK COUNT ARGUMENT…" and "gemm A B C M N K BATCH TA TB ADD";
-- a tensor as an argument is tN. Prints every tensor. Guard elements after each tensor detect writes past its end.
local program_text = [[

struct tensor { char type; long count; void *values; };
static tensor tensors[64];
static int tensor_count;
static char word[64];
static const char *next() {
  if (scanf("%63s", word) != 1) exit(5);
  return word;
}
static long next_long() { return atol(next()); }
static const long GUARD = 64;
template <class E> static void fill(tensor *t) {
  E *values = (E *)malloc(sizeof(E) * (t->count + GUARD));
  for (long i = 0; i < t->count; i++) values[i] = (E)strtod(next(), NULL);
  for (long i = 0; i < GUARD; i++) values[t->count + i] = (E)77;
  t->values = values;
}
template <class E> static void print(int number) {
  const tensor *t = &tensors[number];
  for (long i = 0; i < t->count; i++) printf("%.9g\n", (double)((E *)t->values)[i]);
  for (long i = 0; i < GUARD; i++) if (((E *)t->values)[t->count + i] != (E)77) {
    fprintf(stderr, "tensor %d was written past its end\n", number);
    exit(4);
  }
}
struct argument { char text[64]; };
template <class U> struct value_of {
  static U get(const char *text) {
    return U(1) / 2 ? (U)strtod(text, NULL) : (U)strtoll(text, NULL, 10); } };
template <class U> struct value_of<U *> {
  static U *get(const char *text) { return (U *)tensors[atoi(text + 1)].values; } };
template <class... A, size_t... I>
static void call(void (*kernel)(A...), const argument *given, std::index_sequence<I...>) {
  kernel(value_of<A>::get(given[I].text)...);
}
static dim3 next_dim3() {
  unsigned x = next_long(), y = next_long(), z = next_long();
  return {x, y, z};
}
template <class... A> static void launch(void (*kernel)(A...)) {
  dim3 grid = next_dim3(), block = next_dim3();
  argument given[sizeof...(A) + 1];
  if (next_long() != (long)sizeof...(A)) {
    fprintf(stderr, "a kernel takes %d parameters\n", (int)sizeof...(A));
    exit(6);
  }
  for (size_t i = 0; i < sizeof...(A); i++) strcpy(given[i].text, next());
  run_grid(grid, block, [&] { call(kernel, given, std::index_sequence_for<A...>()); });
}
static void multiply() {
  const float *a = (float *)tensors[next_long()].values, *b = (float *)tensors[next_long()].values;
  float *c = (float *)tensors[next_long()].values;
  const long m = next_long(), n = next_long(), k = next_long(), batch = next_long();
  const long ta = next_long(), tb = next_long(), accumulate = next_long();
  for (long i = 0; i < batch; i++, a += m * k, b += k * n, c += m * n)
    for (long r = 0; r < m; r++)
      for (long s = 0; s < n; s++) {
        double sum = accumulate ? c[r * n + s] : 0.0;
        for (long t = 0; t < k; t++)
          sum += (double)(ta ? a[t * m + r] : a[r * k + t]) * (tb ? b[s * k + t] : b[t * n + s]);
        c[r * n + s] = (float)sum;
      }
}
static const struct { const char *name; void (*run)(); } kernels[] = {
ENTRIES  {NULL, NULL}};
int main() {
  while (strcmp(next(), "end") != 0) {
    if (strcmp(word, "tensor") == 0) {
      tensor *t = &tensors[++tensor_count];
      t->type = next()[0];
      t->count = next_long();
      if (t->type == 'f') fill<float>(t); else if (t->type == 'l') fill<long long>(t); else fill<unsigned char>(t);
    } else if (strcmp(word, "gemm") == 0) {
      multiply();
    } else {
      next();
      const auto *kernel = kernels;
      while (kernel->name && strcmp(kernel->name, word) != 0) kernel++;
      if (!kernel->name) { fprintf(stderr, "no kernel %s\n", word); exit(7); }
      kernel->run();
    }
  }
  for (int i = 1; i <= tensor_count; i++)
    if (tensors[i].type == 'f') print<float>(i);
    else if (tensors[i].type == 'l') print<long long>(i);
    else print<unsigned char>(i);
  return 0;
}
]]

local folder = host.prefix .. "/stand-in"
local flags = "-std=c++17 -O1 -w -fsanitize=undefined -fno-sanitize-recover=undefined"

--- The known sources in order, with the number and program of each.
local sources, numbers, programs = {}, {}, {}

local function know(source)
  if numbers[source] then return end
  sources[#sources + 1] = source
  numbers[source] = #sources
end

--- Compiles all known sources without a program into one program. Each is a namespace, so names may repeat.
local function compile()
  local header = folder .. "/cuda_host.h"
  local text, entries = { ('#define ETT_DTYPE 2\n#include "%s"\n%s\n'):format(header,
    require("ett.cuda").prelude()) }, {}
  local added = {}
  for i, source in ipairs(sources) do
    if not programs[source] then
      added[#added + 1] = source
      text[#text + 1] = ("namespace source%d {\n%s\n}\n"):format(i,
        (source:gsub('extern "C" __global__', "__global__")))
      for kernel in source:gmatch 'extern "C" __global__ void ([%w_]+)' do
        entries[#entries + 1] = ('  {"source%d::%s", [] { launch(source%d::%s); }},\n'):format(i, kernel, i, kernel)
      end
    end
  end
  text[#text + 1] = program_text:gsub("ENTRIES", function() return table.concat(entries) end)
  text = table.concat(text)
  local path = ("%s/program-%s"):format(folder, io_module.hash(text, io_module.hash_file(header), flags))
  if not require("lfs").attributes(path) then
    local part = os.tmpname()
    command.write("", part .. ".cpp", text)
    local messages, status = command.shell(("g++ %s -o '%s' '%s.cpp' 2>&1"):format(flags, part, part))
    os.remove(part .. ".cpp")
    if status ~= 0 then error("the kernels do not compile on the host: " .. messages) end
    os.execute(("mv '%s' '%s'"):format(part, path))
  end
  for _, source in ipairs(added) do programs[source] = path end
end

--- Registers a pass: the next run compiles it together with the others.
function cuda_on_host.expect(backend, op, s, pass)
  local _, launches = recorded(backend, op, s, pass)
  for _, launch in ipairs(launches) do if launch.source then know(launch.source) end end
end

local function dimensions(d)
  d = type(d) == "table" and d or { d }
  return ("%d %d %d"):format(d[1], d[2] or 1, d[3] or 1)
end

local function launch_line(launch)
  local g = launch.gemm
  if g then
    return ("gemm %d %d %d %d %d %d %d %d %d %d"):format(g.a, g.b, g.c, g.m, g.n, g.k, g.batch or 1,
      g.trans_a and 1 or 0, g.trans_b and 1 or 0, g.accumulate and 1 or 0)
  end
  local words = { ("launch source%d::%s %s %s %d"):format(numbers[launch.source], launch.name, dimensions(launch.grid),
    dimensions(launch.block), #launch.args) }
  for i, arg in ipairs(launch.args) do
    words[i + 1] = type(arg) == "table" and "t" .. arg.tensor
      or (math.type(arg) == "integer" and "%d" or "%.17g"):format(arg)
  end
  return table.concat(words, " ")
end

---@param set table<integer, number[]>? values instead of the generated ones, by tensor number
---@return { before: number[][], after: number[][] }
function cuda_on_host.run(backend, op, s, pass, set)
  local tensors, launches = recorded(backend, op, s, pass)
  local lines, result, path = {}, { before = {}, after = {} }, nil
  for i, tensor in ipairs(tensors) do
    local values = set and set[i] or values_of(tensor.spec, i, tensor.count)
    local words = { ("tensor %s %d"):format(tensor.type, tensor.count) }
    for j, value in ipairs(values) do words[j + 1] = ("%.9g"):format(value) end
    lines[#lines + 1] = table.concat(words, " ")
    result.before[i] = values
  end
  for _, launch in ipairs(launches) do if launch.source then know(launch.source) end end
  for _, launch in ipairs(launches) do
    if launch.source and not programs[launch.source] then compile() end
    path = programs[launch.source] or path
    lines[#lines + 1] = launch_line(launch)
  end
  lines[#lines + 1] = "end\n"
  local input = os.tmpname()
  command.write("", input, table.concat(lines, "\n"))
  local output, status = command.shell(("'%s' <'%s'"):format(path, input))
  os.remove(input)
  if status ~= 0 then error(("%s %s: %s"):format(op.name, pass, output:match "[^\n]*\n?$")) end
  local next_number = output:gmatch "[^\n]+"
  for i, tensor in ipairs(tensors) do
    result.after[i] = {}
    for j = 1, tensor.count do result.after[i][j] = assert(tonumber(next_number())) end
  end
  return result
end

return cuda_on_host
