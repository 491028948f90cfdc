--- Launches that operator files share: grids for elementwise and row-wise kernels.
local launch = {}

local BLOCK = 256

--- One thread an element in a grid-stride loop; the kernel's last argument is n.
---@param args table tensors and numbers before n
function launch.elements(k, name, source, n, args)
  args[#args + 1] = n
  k.kernel { name = name, source = source, grid = math.min((n + BLOCK - 1) // BLOCK, 1 << 20), block = BLOCK,
    args = args }
end

--- One block a row of `cols` elements; the kernel's last argument is cols.
function launch.rows(k, name, source, rows, cols, args)
  args[#args + 1] = cols
  local block = math.max(32, math.min(1024, (cols + 31) // 32 * 32))
  k.kernel { name = name, source = source, grid = rows, block = block, args = args }
end

return launch
