--- Kernel launches that operator files share: elementwise and row-wise kernels.
local launch = {}

local BLOCK = 256

--- Launches one thread per element, with a grid-stride loop; the kernel's last argument is n.
---@param args table tensors and numbers before n
function launch.elements(k, name, source, n, args)
  args[#args + 1] = n
  k.kernel { name = name, source = source, grid = math.min((n + BLOCK - 1) // BLOCK, 1 << 20), block = BLOCK,
    args = args }
end

--- Launches one block per row of `cols` elements; the kernel's last argument is cols.
function launch.rows(k, name, source, rows, cols, args)
  args[#args + 1] = cols
  local block = math.max(32, math.min(1024, (cols + 31) // 32 * 32))
  k.kernel { name = name, source = source, grid = rows, block = block, args = args }
end

local function source_of(name, pass)
  local parameters, lines = {}, {}
  for i, tensor in ipairs(pass.takes) do
    parameters[i] = ("const T *%s_"):format(tensor)
    lines[i] = ("    const float %s = load(%s_, i);"):format(tensor, tensor)
  end
  for _, tensor in ipairs(pass.gives) do
    parameters[#parameters + 1] = ("T *%s_"):format(tensor)
    lines[#lines + 1] = ("    float %s;"):format(tensor)
  end
  lines[#lines + 1] = "    " .. pass.code
  for _, tensor in ipairs(pass.gives) do lines[#lines + 1] = ("    store(%s_, i, %s);"):format(tensor, tensor) end
  return ('extern "C" __global__ void %s(%s, long long n) {\n  each_element(i, n) {\n%s\n  }\n}\n'):format(name,
    table.concat(parameters, ", "), table.concat(lines, "\n"))
end

local function double_of(pass)
  return function(...)
    local tensors, values = { ... }, {}
    for i = 1, #tensors[1] do
      for at in ipairs(pass.takes) do values[at] = tensors[at][i] end
      local results = { pass.double(table.unpack(values, 1, #pass.takes)) }
      for at, result in ipairs(results) do tensors[#pass.takes + at][i] = result end
    end
  end
end

--- Defines the kernels of an elementwise operator whose tensors have equal shapes:
---   launch.map(op, { forward = { takes = { "x" }, gives = { "y" }, code = "y = 2.0f * x;",
---     double = function(x) return 2 * x end }, backward = … })
--- code: CUDA C over floats with these names. double: the reference in Lua, one result per name in `gives`.
function launch.map(op, passes)
  local source, doubles = {}, {}
  for _, pass in ipairs { "forward", "backward" } do
    local name = op.name .. "_" .. pass
    source[#source + 1] = source_of(name, passes[pass])
    doubles[name] = double_of(passes[pass])
  end
  op.cuda, op.doubles = table.concat(source, "\n"), doubles
  function op.kernel(k, s, pass)
    local shape, args = op.kernel_shape(s), {}
    for i = 1, #passes[pass].takes + #passes[pass].gives do args[i] = k.tensor { shape.rows, shape.cols } end
    launch.elements(k, op.name .. "_" .. pass, op.cuda, shape.rows * shape.cols, args)
  end
end

return launch
