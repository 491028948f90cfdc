--- Shared by operators with a dropout of 10 %: the random generator of the mask, and the backward pass.
local dropout = {}

--- CUDA C of an operator: the generator, the given forward kernel, and the backward kernel.
function dropout.cuda(name, forward)
  return [[
// A counter-based generator (splitmix64): element i always draws the same number.
static __device__ bool kept(long long i) {
  unsigned long long z = 0x9e3779b97f4a7c15ull * (unsigned long long)(i + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (z >> 40) > 1677721;
}
]] .. forward .. ([[

extern "C" __global__ void %s_backward(const T *dy, T *dx, const unsigned char *mask, long long n) {
  each_element(i, n) store(dx, i, mask[i] ? load(dy, i) / 0.9f : 0.0f);
}
]]):format(name)
end

--- Whether element i (from 1) is kept, by the kernel's generator: Lua integers wrap in the same way.
function dropout.kept(i)
  local z = 0x9e3779b97f4a7c15 * i
  z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
  z = (z ~ (z >> 27)) * 0x94d049bb133111eb
  return z >> 40 > 1677721
end

function dropout.backward(dy, dx, mask)
  for i, v in ipairs(dy) do dx[i] = mask[i] ~= 0 and v / 0.9 or 0.0 end
end

return dropout
