"""Seventy-five common shapes of secrets and personal data: none leaves under the default redaction."""

from __future__ import annotations

import pytest

from lockgate.core.redaction.redact import redact

HEX64 = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
ROWS: list[tuple[str, str]] = [
    # Keys of providers.
    ("AWS access key", "|AKIAIOSFODNN7EXAMPLE|"),
    ("AWS secret key", "aws_secret_access_key=|wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY|"),
    ("GitHub token", "|ghp_16C7e42F292c6912E7710c838347Ae178B4a|"),
    ("GitHub fine-grained token", "|github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789|"),
    ("GitLab token", "|glpat-9Xk2Lm8Qr4Vt6Zp1Ws3Y|"),
    ("Slack bot token", "|xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx|"),
    ("Slack webhook", "https://hooks.slack.com/services/T00000000/|B00000000/XXXXabcdXXXX1234XXXX5678|"),
    ("Stripe key", "|sk_live_4eC39HqLyjWDarjtT1zdp7dc|"),
    ("OpenAI key", "|sk-proj-Zk3mN8vQ2xR7tY1wL5pB9cD4fG6hJ0sA|"),
    ("Anthropic key", "|sk-ant-api03-Zk3mN8vQ2xR7tY1wL5pB9cD4fG6hJ0sA-AbCd|"),
    ("Google API key", "|AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY|"),
    ("npm token", "|npm_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8|"),
    ("PyPI token", "|pypi-AgEIcHlwaS5vcmcCJDk3ZTQ5ZjAwLTI1ZTEtNDM2Zi1hZDQx|"),
    ("SendGrid key", "|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|"),
    ("Twilio key", "SK|0123456789abcdef0123456789abcdef|"),
    ("Telegram bot token", "|110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1|"),
    ("Discord token", "|MTAxNTY0NzY4OTAxMjM0NTY3.GhJkLm.abcdefghijklmnopqrstuvwxyz0123456789AB|"),
    ("Hugging Face token", "|hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567|"),
    ("DigitalOcean token", f"|dop_v1_{HEX64}|"),
    ("Shopify token", "|shpat_0123456789abcdef0123456789abcdef|"),
    ("Databricks token", "|dapi0123456789abcdef0123456789abcdef|"),
    ("Vault token", "|hvs.CAESIJ1a2b3c4d5e6f7g8h9i0jKlMnOpQrStUv|"),
    ("age key", "|AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQQPZRY9X8GF2TVDW0S|"),
    ("JWT", "|eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U|"),
    (
        "Azure connection string",
        "AccountKey=|Zk3mN8vQ2xR7tY1wL5pB9cD4fG6hJ0sAZk3mN8vQ2xR7tY1wL5pB9cD4fG6hJ0sAZk3mN8vQ2xQ==|",
    ),
    ("Google OAuth secret", "|GOCSPX-aBcDeFgHiJkLmNoPqRsTuVwXyZ01|"),
    # Passwords and codes.
    ("password in a setting", "password=|hunter2!x9|"),
    ("password in a sentence", "my password is |Tr0ub4dor&3|"),
    ("password in YAML", "db_password: |s3cr3t-Pa55|"),
    ("password in JSON", '{"passwd": "|correct-h0rse|"}'),
    ("URL with login", "postgres://app:|n0tSoS3cret|@db.example/app"),
    ("Basic auth header", "Authorization: Basic |YWxhZGRpbjpvcGVuc2VzYW1l|"),
    ("bearer header", "Authorization: Bearer |abcDEF123456ghiJKL7890|"),
    ("cookie", "Cookie: session=|8f14e45fceea167a5a36dedd4bea2543|"),
    ("curl login", "curl -u admin:|S3cretPass9| https://x.example"),
    ("mysql option", "mysql -uroot -p|S3cretPass9| app"),
    ("netrc", "machine x.example login ann password |S3cretPass9|"),
    ("env export", "export API_TOKEN=|9f86d081884c7d659a2feaa0c55ad015|"),
    ("PIN", "PIN: |4821|"),
    ("CVV", "cvv: |123|"),
    ("one-time code", "Your one-time code is |482913|"),
    ("verification code", "Your verification code is: |482913|"),
    ("login code", "G-|482913| is your Google verification code."),
    ("code before its label", "|482 913| is your login code"),
    ("use code", "Use code |482913| to sign in"),
    ("2FA backup code", "backup code: |8f3k-29dk|"),
    ("TOTP secret", "otpauth://totp/x?secret=|JBSWY3DPEHPK3PXP|"),
    ("recovery phrase", f"recovery phrase: |{WORDS}|"),
    ("seed phrase", f"seed phrase: |{WORDS}|"),
    ("seed phrase of 24 words", f"My seed phrase is |{WORDS} {WORDS}|"),
    ("mnemonic", f'"mnemonic": "|{WORDS}|"'),
    # Private keys.
    ("PEM key", "-----BEGIN PRIVATE KEY-----\n|MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj|\n-----END PRIVATE KEY-----"),
    ("0x private key", f"0x|{HEX64}|"),
    ("labelled private key", f"private key: |{HEX64}|"),
    ("private key in a setting", f"PRIVATE_KEY=0x|{HEX64}|"),
    ("WIF key", "|5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ|"),
    (
        "extended private key",
        "|xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi|",
    ),
    ("WireGuard key", "PrivateKey = |yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=|"),
    # People.
    ("mail address", "|ann.lee@mail.example|"),
    ("spelled mail address", "|ann.lee [at] mail [dot] example|"),
    ("phone", "|+49 170 1234567|"),
    ("US phone", "|(212) 555-0187|"),
    ("IBAN", "|DE89 3704 0044 0532 0130 00|"),
    ("card", "|4111 1111 1111 1111|"),
    ("US social security number", "|078-05-1120|"),
    ("UK national insurance number", "|AB 12 34 56 C|"),
    ("passport", "passport no. |C01X00T47|"),
    ("Spanish DNI", "|12345678Z|"),
    ("Brazilian CPF", "|529.982.247-25|"),
    ("Italian tax code", "|RSSMRA85T10A562S|"),
    ("Indian PAN", "|ABCPE1234F|"),
    ("Aadhaar", "Aadhaar: |2345 6789 0124|"),
    ("driving licence", "driving licence: |MORGA657054SM9IJ|"),
    ("date of birth", "date of birth: |1985-04-12|"),
    ("IP address", "client |203.0.113.77| logged in"),
]
MISSING = {
    "IP address": "addresses of machines are removed by the rule set `hipaa` only",
}
CASES = [
    pytest.param(*text.split("|"), id=name, marks=pytest.mark.xfail(strict=True, reason=MISSING[name]))
    if name in MISSING
    else pytest.param(*text.split("|"), id=name)
    for name, text in ROWS
]


@pytest.mark.parametrize(("before", "secret", "behind"), CASES)
def test_the_shape_does_not_leave(before: str, secret: str, behind: str) -> None:
    assert secret not in redact(f"{before}{secret}{behind}").text


@pytest.mark.parametrize(
    "text",
    [
        f"commit {HEX64[:40]}",
        f"sha256:{HEX64}",
        f"data = 0x{HEX64}{HEX64}",
        "use code 200 or code 404 here",
        "Recovery is possible: the words are read again and again until every line has been found here",
        "enter the code of conduct",
    ],
)
def test_ordinary_code_stays(text: str) -> None:
    assert redact(text).text == text
