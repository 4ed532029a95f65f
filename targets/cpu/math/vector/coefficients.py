"""Polynomials of the mathematical functions, the constant term first.

Each is a minimax approximation with coefficients of the type that computes with them.
The error is the relative one of the function that is made of the polynomial, without rounding.

References
----------
N. Brisebarre and S. Chevillard, "Efficient polynomial L-infinity-approximations", 18th IEEE
Symposium on Computer Arithmetic, 2007: the algorithm. M. M. Shepherd and J. G. Laframboise,
"Chebyshev Approximation of (1 + 2 x) exp(x**2) erfc x in 0 <= x < infinity", Mathematics of
Computation 36, 1981: what is approximated for erfc.
"""

from __future__ import annotations

__all__ = [
    "ASIN",
    "ATAN",
    "CBRT",
    "COS",
    "ERF",
    "ERFC",
    "EXP",
    "EXP2",
    "EXP2_SHORT",
    "LOG",
    "LOG_2",
    "LOG_2_QUOTIENT",
    "LOG_10",
    "LOG_QUOTIENT",
    "LOG_QUOTIENT_5",
    "SIN",
    "SINH",
    "TANH",
]


def _table(**texts: str) -> dict[str, tuple[float, ...]]:
    """Return the numbers of each type, which are written in hexadecimal."""
    return {kind: tuple(map(float.fromhex, text.split())) for kind, text in texts.items()}


#: (exp(r) - 1 - r) / r**2, r from -log(2) / 2 to log(2) / 2: to 2.9e-10 and 2.3e-19.
EXP = _table(
    float="0x1p-1 0x1.555556p-3 0x1.5555p-5 0x1.110fc2p-7 0x1.6d3074p-10 0x1.a2d982p-13",
    double="""
        0x1p-1 0x1.5555555555557p-3 0x1.5555555555557p-5 0x1.111111111004dp-7 0x1.6c16c16c156a2p-10
        0x1.a01a01ac20fc4p-13 0x1.a01a01ab9a60fp-16 0x1.71de01a1ad729p-19 0x1.27e4cfa93d08p-22
        0x1.af4ee43064275p-26 0x1.1f86fc3312cc9p-29
    """,
)

#: 2**r, r from -1/2 to 1/2: to 4.0e-09 and 1.4e-18.
EXP2 = _table(
    float="""
        0x1p0 0x1.62e43p-1 0x1.ebfbep-3 0x1.c6af72p-5 0x1.3b2a44p-7 0x1.5f0dccp-10 0x1.44292ap-13
    """,
    double="""
        0x1p0 0x1.62e42fefa39efp-1 0x1.ebfbdff82c58fp-3 0x1.c6b08d704a183p-5 0x1.3b2ab6fba4d8p-7
        0x1.5d87fe7888b62p-10 0x1.430912f8a93b3p-13 0x1.ffcbfcdbb0811p-17 0x1.62c0216361669p-20
        0x1.b524224fbf4b9p-24 0x1.e4d2017146c4bp-28 0x1.eafe88661b6f1p-32 0x1.c0e2f3590dae6p-36
    """,
)

#: 2**r, r from -1/2 to 1/2, for a float32 result: to 2.6e-09.
EXP2_SHORT = _table(
    double="""
        0x1.ffffffff4e06dp-1 0x1.62e430d0436b1p-1 0x1.ebfbe10e31755p-3 0x1.c6aecc579fea8p-5
        0x1.3b2995f220416p-7 0x1.5f48c64dbef81p-10 0x1.4498ffd3e02c8p-13
    """,
)

#: (log(1 + f) - f + f**2 / 2) / f**3, f from -1/3 to 1/3: to 1.8e-08.
LOG = _table(
    float="""
        0x1.55554cp-2 -0x1.ffff74p-3 0x1.99addep-3 -0x1.558a74p-3 0x1.211ab6p-3 -0x1.f4c81p-4
        0x1.132ee2p-3 -0x1.04ff52p-3
    """,
)

#: (log2(1 + f) - f / log(2)) / f**2, f from -1/3 to 1/3: to 8.8e-09.
LOG_2 = _table(
    float="""
        -0x1.715476p-1 0x1.ec7062p-2 -0x1.715414p-2 0x1.27926cp-2 -0x1.ecc2ccp-3 0x1.9f419p-3
        -0x1.68e5dep-3 0x1.966f6cp-3 -0x1.79e14p-3
    """,
)

#: (log10(1 + f) - f / log(10)) / f**2, f from -1/3 to 1/3: to 9.5e-09.
LOG_10 = _table(
    float="""
        -0x1.bcb7b2p-3 0x1.287a52p-3 -0x1.bcb63ap-4 0x1.63e78cp-4 -0x1.28cc8cp-4 0x1.f401b8p-5
        -0x1.af803ep-5 0x1.e97328p-5 -0x1.d34964p-5
    """,
)

#: (log((1 + s) / (1 - s)) - 2 * s) / s**3 in s**2, s from -1/5 to 1/5: to 4.9e-19.
LOG_QUOTIENT = _table(
    double="""
        0x1.5555555555555p-1 0x1.999999999a008p-2 0x1.24924923cccf4p-2 0x1.c71c72f137c3fp-3
        0x1.745ca7aa58afcp-3 0x1.3b2a7126a1ea6p-3 0x1.0e8136b53415fp-3 0x1.16ea8853fd687p-3
    """,
)

#: (log((1 + s) / (1 - s)) - 2 * s - 2/3 * s**3) / s**5 in s**2, s from -1/5 to 1/5: to 8.5e-22.
LOG_QUOTIENT_5 = _table(
    double="""
        0x1.999999999999ap-2 0x1.24924924922a9p-2 0x1.c71c71c772315p-3 0x1.745d170f67422p-3
        0x1.3b13c3c38e1efp-3 0x1.110d6a919a7a3p-3 0x1.e2bad7a991623p-4 0x1.a0cdded6ce558p-4
        0x1.007d1e270e83dp-3
    """,
)

#: log2((1 + s) / (1 - s)) / s in s**2, s from -1/5 to 1/5, for a float32 result: to 2.0e-11.
LOG_2_QUOTIENT = _table(
    double="""
        0x1.71547652d8929p1 0x1.ec709b50febf5p-1 0x1.2778a9a2cf2bdp-1 0x1.a511e78b6fa49p-2
        0x1.64d46aeb4aa78p-2
    """,
)

#: (sin(r) - r) / r**3 in r**2, r from -pi/4 to pi/4: to 5.2e-10 and 4.8e-19.
SIN = _table(
    float="-0x1.555556p-3 0x1.11119ap-7 -0x1.a0858p-13 0x1.88252ap-19",
    double="""
        -0x1.5555555555555p-3 0x1.111111111101ep-7 -0x1.a01a019fe885fp-13 0x1.71de3a1036a14p-19
        -0x1.ae63f7fe3e11bp-26 0x1.60e5cb144ed28p-33 -0x1.8d5121e4144e5p-41
    """,
)

#: (cos(r) - 1 + r**2 / 2) / r**4 in r**2, r from -pi/4 to pi/4: to 9.7e-11 and 9.6e-20.
COS = _table(
    float="0x1.555556p-5 -0x1.6c17d4p-10 0x1.a0f5dp-16 -0x1.58feep-22",
    double="""
        0x1.5555555555555p-5 -0x1.6c16c16c16a32p-10 0x1.a01a019fb7abdp-16 -0x1.27e4faeeb4df7p-22
        0x1.1eecd5b7f9e9dp-29 -0x1.92a5df440f1bbp-37 0x1.345929e897dddp-45
    """,
)

#: (atan(t) - t) / t**3 in t**2, t from 0 to 1/2: to 1.4e-09 and 7.6e-19.
ATAN = _table(
    float="-0x1.555556p-2 0x1.999992p-3 -0x1.2481acp-3 0x1.c3e3ecp-4 -0x1.559526p-4 0x1.66b0b4p-5",
    double="""
        -0x1.5555555555555p-2 0x1.999999999980ep-3 -0x1.24924924820bfp-3 0x1.c71c71bd76fa7p-4
        -0x1.745d15b0584b3p-4 0x1.3b13883543851p-4 -0x1.110e56fa0e99fp-4 0x1.e1a282df295fbp-5
        -0x1.ad26eb6ab0816p-5 0x1.7aad149b7bcbfp-5 -0x1.36b90b0371292p-5 0x1.967fbda44639bp-6
        -0x1.29ee036314a3bp-7
    """,
)

#: (asin(t) - t) / t**3 in t**2, t from 0 to 1/2: to 7.6e-10 and 3.1e-18.
ASIN = _table(
    float="0x1.555554p-3 0x1.3334cep-4 0x1.6d3e6ap-5 0x1.ffbf34p-6 0x1.0fe1b2p-6 0x1.1acb92p-5",
    double="""
        0x1.5555555555556p-3 0x1.3333333332d9ep-4 0x1.6db6db6e48dfep-5 0x1.f1c71c1187fb9p-6
        0x1.6e8bb383be85bp-6 0x1.1c4d0fc1f1632p-6 0x1.c9d336d8d3d2bp-7 0x1.77ff42edd9f3cp-7
        0x1.533650a538ec1p-7 0x1.5dc13ab6834p-8 0x1.224dc1f6ecf3p-6 -0x1.f6742fa25a87ap-7
        0x1.dc68fbe7fc6eep-6
    """,
)

#: (sinh(x) - x) / x**3 in x**2, x from 0 to 1: to 8.0e-10 and 9.3e-19.
SINH = _table(
    float="0x1.555556p-3 0x1.1110c6p-7 0x1.a0354cp-13 0x1.7254e8p-19",
    double="""
        0x1.5555555555555p-3 0x1.1111111111198p-7 0x1.a01a01a00ba06p-13 0x1.71de3a5e92f5cp-19
        0x1.ae6453429517ap-26 0x1.61222dc8361cfp-33 0x1.b263553e2102cp-41
    """,
)

#: (tanh(x) - x) / x**3 in x**2, x from 0 to 0.55: to 3.9e-09 and 2.3e-18.
TANH = _table(
    float="-0x1.555554p-2 0x1.110fc8p-3 -0x1.b99a8p-5 0x1.5cf31p-6 -0x1.b0319cp-8",
    double="""
        -0x1.5555555555555p-2 0x1.1111111110fdap-3 -0x1.ba1ba1b9f8f7cp-5 0x1.664f4875a8d1bp-6
        -0x1.226e32bf431b8p-7 0x1.d6d331436cc0ap-9 -0x1.7d9767c6ad7d5p-10 0x1.34c248342f627p-11
        -0x1.ebee0c6f93e3cp-13 0x1.649a801be22a7p-14 -0x1.58b407daf9134p-16
    """,
)

#: erf(x) / x - 1 in x**2, x from 0 to 1: to 8.6e-10 and 1.1e-17.
ERF = _table(
    float="""
        0x1.06eba8p-3 -0x1.812744p-2 0x1.ce2eap-4 -0x1.b821e6p-6 0x1.55dcc8p-8 -0x1.b99ef6p-11
        0x1.c775e2p-14 -0x1.1fdd34p-17
    """,
    double="""
        0x1.06eba8214db69p-3 -0x1.812746b0379fdp-2 0x1.ce2f21a04362bp-4 -0x1.b82ce312abdfep-6
        0x1.565bcd1295b6cp-8 -0x1.c02db49a4c0c1p-11 0x1.f9a3351fba47dp-14 -0x1.f4d33173e5314p-17
        0x1.b9ee7858376a8p-20 -0x1.5f971e2295c11p-23 0x1.fc6cd870eb14bp-27 -0x1.46523c09a85b6p-30
        0x1.290912df24e29p-34
    """,
)

#: (1 + 2 * x) * exp(x**2) * erfc(x) in q = (x - c) / (x + c): to 6.5e-09 and 3.8e-17. In float32 x
#: is from 0 to 10.5 and c = 2, in float64 x is from 0 to 28 and c = 4.
ERFC = _table(
    float="""
        0x1.46e80ep0 -0x1.7bf5e8p-4 -0x1.5407a4p-3 0x1.4ff9e2p-3 -0x1.bc2de8p-5 -0x1.07201cp-7
        0x1.1dd7f2p-7 0x1.489c08p-10 -0x1.7bc242p-10 -0x1.ae9afap-12 0x1.8e9cd2p-13 0x1.80ea6cp-14
    """,
    double="""
        0x1.3ba5916e9fd7fp0 -0x1.1df1ad154a28ep-3 0x1.f7f5df66fcab5p-7 0x1.16ecefcfa5347p-4
        -0x1.9ddb23c3e548ep-4 0x1.7fee004e134dep-4 -0x1.0fb06dfe89b7ep-4 0x1.3079edf6569f5p-5
        -0x1.0962387b854ep-6 0x1.49c672966e184p-8 -0x1.8d4aa0c7535dap-11 -0x1.a1df33538f337p-13
        0x1.3be0a17d43a59p-13 -0x1.995773a43931ep-16 -0x1.78933c3e829c2p-17 0x1.7f15d288d388ap-18
        0x1.3c30b57c280ap-22 -0x1.ba2228523fb1cp-21 0x1.40f4f03cb462p-24 0x1.d2647e9a1998ap-24
        -0x1.3e973d8085edep-26 -0x1.d5fc922b65a04p-27 0x1.2bf358ef9700bp-29 0x1.6a7329c01beb6p-30
    """,
)

#: m**(-1/3), m from 2/3 to 4/3: to 6.6e-06.
CBRT = _table(
    double="""
        0x1.054859d656403p1 -0x1.59da8548a31f8p1 0x1.9d801a9361914p1 -0x1.2b2fbbad4d30ep1
        0x1.d63095382c2f5p-1 -0x1.34a28e87d492bp-3
    """,
)
