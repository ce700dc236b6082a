"""Mathematical functions in C, with errors of at most 2 units in the last place.

`exp`, `expm1`, `tanh`, `logistic` and `erf` use float arithmetic without branches, which the compiler can vectorise.
The other functions compute in double precision and round once. The coefficients are those of minimax polynomials, whose
largest error on an interval is as small as possible. The test compares every function with double precision.
"""

__all__ = ["MATH"]

MATH = r"""
#define INLINE static inline __attribute__((always_inline))
INLINE int m_bits(float x) { int i; __builtin_memcpy(&i, &x, 4); return i; }
INLINE float m_float(int i) { float x; __builtin_memcpy(&x, &i, 4); return x; }
INLINE long long m_bits_d(double x) { long long i; __builtin_memcpy(&i, &x, 8); return i; }
INLINE double m_double(long long i) { double x; __builtin_memcpy(&x, &i, 8); return x; }
INLINE int m_within(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
INLINE int m_div_i(int a, int b) { return b == 0 ? -1 : b == -1 ? -a : a / b; }
INLINE unsigned m_div_u(unsigned a, unsigned b) { return b == 0 ? -1u : a / b; }
INLINE int m_rem_i(int a, int b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
INLINE unsigned m_rem_u(unsigned a, unsigned b) { return b == 0 ? a : a % b; }
INLINE int m_clz(unsigned x, int bits) { return x ? __builtin_clz(x) - (32 - bits) : bits; }
/* (a b + 2^16 nudge) / 2^31, rounded down and limited to int */
INLINE int m_high(int a, int b, int nudge) {
  const long long high = ((long long)a * b + ((long long)nudge << 16)) >> 31;
  return high == 2147483648LL ? 2147483647 : (int)high;
}
INLINE int m_rounding_divide(int x, int exponent) {
  const int mask = (int)((1u << exponent) - 1u);
  return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0));
}
/* x * mantissa * 2^(exponent - 31), rounded once or twice */
INLINE int m_scaled_1(int x, int mantissa, int exponent) {
  const int left = exponent > 0 ? exponent : 0, right = exponent < 0 ? -exponent : 0;
  return (int)(((long long)(x << left) * mantissa + (1LL << (30 + right))) >> (31 + right));
}
INLINE int m_scaled_2(int x, int mantissa, int exponent) {
  const int left = exponent > 0 ? exponent : 0, right = exponent < 0 ? -exponent : 0;
  return m_rounding_divide(m_high(x << left, mantissa, 1 << 14), right);
}
/* These keep NaN, and need one instruction each. An engine's own minimum needs more. */
INLINE float m_least(float x, float most) { return x > most ? most : x; }
INLINE float m_clip(float x, float least, float most) { return m_least(x < least ? least : x, most); }
INLINE float m_sign_of(float x, float sign) { return __builtin_copysignf(x, sign); }

/* e^r - 1 = r + r^2 q(r) for |r| <= ln 2 / 2 */
INLINE float m_q(float r) {
  return 0.5f + r * (0.16666667f + r * (0.041666463f + r * (0.0083332863f + r * (0.0013933732f + r * 0.00019907703f))));
}
/* Adding 1.5 * 2^23 rounds to an integer, which then lies in the low bits. */
INLINE float m_exp_parts(float x, float *rest) {
  const float y = m_clip(x, -104.0f, 89.0f);
  const float k = y * 1.44269504f + 12582912.0f, n = k - 12582912.0f;
  const float whole = y - n * 0.693359375f, part = n * 2.12194440e-4f, r = whole + part;
  const float s = r + ((whole - r) + part + r * r * m_q(r)), p = 1.0f + s;
  const int i = m_bits(k) - 0x4B400000, h = i >> 1;
  const float a = m_float((h + 127) << 23), b = m_float((i - h + 127) << 23);
  *rest = (s - (p - 1.0f)) * a * b; /* what rounding took away */
  return p * a * b;
}
INLINE float m_exp(float x) { float rest; return m_exp_parts(x, &rest); }
INLINE float m_expm1(float x) {
  const float y = m_clip(x, -20.0f, 89.0f);
  const float k = y * 1.44269504f + 12582912.0f, n = k - 12582912.0f;
  const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  const int i = m_bits(k) - 0x4B400000, h = i >> 1;
  const float p = r + r * r * m_q(r), s = m_float((h + 127) << 23), t = m_float((i - h + 127) << 23);
  const float small = (p * s) * t + (s * t - 1.0f), large = (1.0f + p) * s * t - 1.0f;
  return x == 0 ? x : i > 30 ? large : small;
}
INLINE float m_tanh(float x) {
  const float a = m_least(__builtin_fabsf(x), 20.0f), z = a * a;
  const float small = a + a * z * (-0.33333334f + z * (0.13333292f + z * (-0.05395676f + z * (0.021748902f + z *
    (-0.0082797846f + z * 0.0022218265f)))));
  return m_sign_of(a < 0.625f ? small : 1.0f - 2.0f / (m_exp(2.0f * a) + 1.0f), x);
}
INLINE float m_logistic(float x) {
  float rest;
  const float e = m_exp_parts(-__builtin_fabsf(x), &rest), d = 1.0f + e, left = (1.0f - d) + e + rest;
  const float q = (x < 0 ? e : 1.0f) / d;
  return q + ((x < 0 ? rest : 0.0f) - q * left) / d;
}
INLINE float m_erf(float x) {
  const float a = m_least(__builtin_fabsf(x), 4.0f), z = a * a;
  const float small = a + a * (0.12837917f + z * (-0.37612632f + z * (0.112836726f + z * (-0.026858104f + z *
    (0.005197797f + z * (-0.0008105965f + z * 8.215424e-05f))))));
  const float tail = 8.59412321e-05f + a * (-1.12897968f + a * (-0.634753585f + a * (-0.106167316f + a * (0.0231226385f
    + a * (-0.00294060144f + a * (-5.9531325e-05f + a * (0.00010340783f + a * (-1.78625342e-05f
    + a * 1.1107777e-06f))))))));
  return m_sign_of(a < 0.92f ? small : 1.0f - m_exp(tail), x);
}

static double m_exp_d(double x) {
  const double y = x < -745.0 ? -745.0 : x > 710.0 ? 710.0 : x;
  const double k = y * 1.4426950408889634 + 6755399441055744.0, n = k - 6755399441055744.0;
  const double r = (y - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
  const double q = 0.5 + r * (0.16666666666666227 + r * (0.041666666667111885 + r * (0.008333333332944547 + r *
    (0.0013888888682584528 + r * (0.00019841270570268384 + r * (2.4801851261622954e-05 + r * (2.7557060127945478e-06
    + r * (2.7479232604133437e-07 + r * 2.5043074060862664e-08))))))));
  const int i = (int)(m_bits_d(k) & 0xFFFFFFFF), h = i >> 1;
  if (x != x) return x;
  return (1.0 + (r + r * r * q)) * m_double((long long)(h + 1023) << 52) * m_double((long long)(i - h + 1023) << 52);
}
/* log((1 + s) / (1 - s)) = 2 s + s^3 (2/3 + 2/5 s^2 + ...) */
static double m_log_d(double x) {
  if (!(x > 0)) return x == 0 ? -__builtin_inf() : __builtin_nan("");
  if (x == __builtin_inf()) return x;
  const long long b = m_bits_d(x), e = (b - 0x3FE6A09E667F3BCDLL) >> 52;
  const double m = m_double(b - (e << 52)), s = (m - 1.0) / (m + 1.0), z = s * s;
  const double r = 2.0 / 3 + z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11 + z * (2.0 / 13 + z *
    (2.0 / 15 + z * (2.0 / 17 + z * 2.0 / 19)))))));
  return (double)e * 0.6931471805599453 + (2.0 * s + s * z * r);
}
INLINE float m_log(float x) { return (float)m_log_d(x); }
INLINE float m_log1p(float x) {
  return __builtin_fabsf(x) < 1e-4f ? (float)(x - (double)x * x * (0.5 - x / 3.0)) : (float)m_log_d(1.0 + x);
}
INLINE float m_exp2(float x) { return (float)m_exp_d(x * 0.6931471805599453); }
static float m_pow(float x, float y) {
  if (y == 0 || x == 1) return 1.0f;
  if (x != x || y != y) return x + y;
  const float whole = __builtin_truncf(y);
  const int odd = __builtin_fabsf(y) < 16777216.0f && whole == y && ((int)whole & 1);
  const float a = __builtin_fabsf(x);
  if (a == 1 && __builtin_fabsf(y) == __builtin_inff()) return 1.0f;
  const float p = (float)m_exp_d((double)y * m_log_d(a));
  if (x < 0 && a != __builtin_inff() && whole != y) return __builtin_nanf("");
  return odd ? m_sign_of(p, x) : p;
}
static float m_rem(float x, float y) {
  if (!(__builtin_fabsf(x) < __builtin_inff()) || y == 0 || y != y) return __builtin_nanf("");
  double a = __builtin_fabsf(x);
  const double b = __builtin_fabsf(y);
  while (a >= b) { /* Subtract the largest b 2^n that fits; this is exact. */
    double c = b;
    const long long gap = (m_bits_d(a) >> 52) - (m_bits_d(b) >> 52);
    if (gap > 0) c = m_double(m_bits_d(b) + (gap << 52));
    if (c > a) c *= 0.5;
    a -= c;
  }
  return m_sign_of((float)a, x);
}
INLINE float m_round(float x) {
  const float t = __builtin_truncf(x);
  return __builtin_fabsf(x - t) >= 0.5f ? t + m_sign_of(1.0f, x) : t;
}
static float m_nextafter(float x, float y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0) return m_sign_of(1e-45f, y);
  return m_float(m_bits(x) + ((x < y) == (x > 0) ? 1 : -1));
}
static float m_cbrt(float x) {
  if (x == 0 || x != x) return x;
  return m_sign_of((float)m_exp_d(m_log_d(__builtin_fabsf(x)) / 3.0), x);
}

/* The tangent of x, or its sine (quarter 0) or cosine (quarter 1). |x| above 10^9 is not reduced exactly. */
static double m_circle(double x, int quarter, int tangent) {
  const double k = x * 0.6366197723675814 + 6755399441055744.0, n = k - 6755399441055744.0;
  const double r = ((x - n * 1.570796325802803) - n * 9.920935156593243e-10), z = r * r;
  const double s = r + r * z * (-0.1666666666666889 + z * (0.008333333338044716 + z * (-0.00019841276732624405 + z *
    (2.7560598429080545e-06 + z * (-2.567458045454613e-08 + z * 5.695369350474235e-10)))));
  const double c = 1.0 + z * (-0.5000000000000008 + z * (0.041666666666827626 + z * (-0.0013888888917226365 + z *
    (2.4801606334606647e-05 + z * (-2.7563204173173136e-07 + z * (2.1720846425960176e-09 - z *
    5.692778798246116e-11))))));
  const int i = (int)(m_bits_d(k) & 3) + quarter;
  if (tangent) return i & 1 ? -c / s : s / c;
  const double v = i & 1 ? c : s;
  return i & 2 ? -v : v;
}
INLINE float m_sin(float x) { return x == 0 ? x : (float)m_circle(x, 0, 0); }
INLINE float m_cos(float x) { return (float)m_circle(x, 1, 0); }
INLINE float m_tan(float x) { return x == 0 ? x : (float)m_circle(x, 0, 1); }
static double m_atan_d(double x) {
  double a = __builtin_fabs(x), add = 0;
  if (a > 2.414213562373095) { add = 1.5707963267948966; a = -1.0 / a; }
  else if (a > 0.41421356237309503) { add = 0.7853981633974483; a = (a - 1.0) / (a + 1.0); }
  const double z = a * a;
  const double v = add + a * (0.9999999999999751 + z * (-0.33333333330947884 + z * (0.19999999622409512 + z *
    (-0.14285691228693473 + z * (0.11110403266574931 + z * (-0.09078616347437496 + z * (0.0756523184177929 + z *
    (-0.058799206046472985 + z * 0.030740265501890456))))))));
  return __builtin_copysign(v, x);
}
static double m_atan2_d(double y, double x) {
  if (x != x || y != y) return x + y;
  if (y == 0) return x < 0 || (x == 0 && m_bits_d(x) < 0) ? __builtin_copysign(3.141592653589793, y) : y;
  if (x == 0) return __builtin_copysign(1.5707963267948966, y);
  const int far = __builtin_fabs(x) == __builtin_inf() && __builtin_fabs(y) == __builtin_inf();
  const double a = far ? 0.7853981633974483 : __builtin_fabs(m_atan_d(y / x));
  return __builtin_copysign(x < 0 ? 3.141592653589793 - a : a, y);
}
INLINE float m_atan(float x) { return x == 0 ? x : (float)m_atan_d(x); }
INLINE float m_atan2(float y, float x) { return (float)m_atan2_d(y, x); }
INLINE float m_asin(float x) {
  return x == 0 ? x : (float)m_atan2_d(x, __builtin_sqrt((1.0 - x) * (1.0 + x)));
}
INLINE float m_acos(float x) { return (float)m_atan2_d(__builtin_sqrt((1.0 - x) * (1.0 + x)), x); }
INLINE float m_sinh(float x) {
  const double d = x, e = m_exp_d(d);
  return __builtin_fabsf(x) < 0.05f ? (float)(d + d * d * d * (1.0 / 6 + d * d / 120)) : (float)((e - 1.0 / e) / 2);
}
INLINE float m_cosh(float x) { const double e = m_exp_d(x); return (float)((e + 1.0 / e) / 2); }
INLINE float m_asinh(float x) {
  const double a = __builtin_fabs((double)x);
  if (x == 0) return x;
  if (a < 0.01) return (float)(x - (double)x * x * x * (1.0 / 6 - 0.075 * a * a));
  return a == __builtin_inf() ? x : m_sign_of((float)m_log_d(a + __builtin_sqrt(a * a + 1.0)), x);
}
INLINE float m_acosh(float x) {
  const double d = x < 1 ? __builtin_nan("") : x;
  return (float)m_log_d(d + __builtin_sqrt((d - 1.0) * (d + 1.0)));
}
INLINE float m_atanh(float x) {
  const double d = x;
  if (__builtin_fabsf(x) < 0.01f) return (float)(d + d * d * d * (1.0 / 3 + d * d / 5));
  return (float)(0.5 * m_log_d((1.0 + d) / (1.0 - d)));
}
/* e^(x^2) erfc(x) / t is a polynomial in t = 4 / (4 + x) for x >= 0. */
static float m_erfc(float x) {
  if (x != x) return x;
  const double a = __builtin_fabs((double)x), t = 4.0 / (4.0 + a);
  const double p = 0.14104739588052184 + t * (0.1410473987873338 + t * (0.1366394493919309 + t * (0.12783043403835562
    + t * (0.11492136710488911 + t * (0.09985149278559806 + t * (0.07653429652289545 + t * (0.07900090606988125 + t *
    (0.005266378674670669 + t * (0.08832000684625678 + t * (-0.02826698584225605 + t * (-0.0014579802671492725 + t *
    (0.055048812870205674 + t * (-0.04661644803818283 + t * 0.010833475220552221)))))))))))));
  const double v = a > 11 ? 0 : t * p * m_exp_d(-a * a);
  return (float)(x < 0 ? 2.0 - v : v);
}
static float m_erf_inv(float x) {
  const double a = __builtin_fabs((double)x);
  if (a == 1) return m_sign_of(__builtin_inff(), x);
  if (!(a < 1)) return __builtin_nanf("");
  const double w = -m_log_d((1.0 - a) * (1.0 + a));
  if (w < 6) {
    const double p = 0.8862269257106326 + w * (0.23201365277239044 + w * (0.011549460556376536 + w *
      (-0.002335485195377978 + w * (-0.00012744759389060386 + w * (4.6146863249212335e-05 + w * (2.1478273486510275e-06
      + w * (-9.349803352486987e-07 + w * (-1.262022787485341e-07 + w * (6.192389426314724e-08 + w *
      (-8.586396787688246e-09 + w * (5.636986691753551e-10 - w * 1.5040991081803785e-11)))))))))));
    return (float)(x * p);
  }
  const double s = __builtin_sqrt(w);
  const double p = -0.22857288525140262 + s * (1.5624106874537105 + s * (-0.8634527895609709 + s * (0.6291766130964663
    + s * (-0.27127117417757757 + s * (0.07471254845895876 + s * (-0.01328268970381648 + s * (0.001455946884899323 + s
    * (-8.425724642633142e-05 + s * (1.1389261636002177e-06 + s * 7.763823074683461e-08)))))))));
  return m_sign_of((float)p, x);
}
"""
