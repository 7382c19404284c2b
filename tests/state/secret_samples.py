"""Realistic secrets in realistic surroundings, and harmless lines that look a little like them.

Every value is made here, from pieces, so that no scanner takes this file for a leak. A sample is a
text and the part of it that must not be seen afterwards.
"""

from __future__ import annotations

import base64

ALNUM = "q7Rt2Wx9Lm4Np8Zc5Vb1Hj6Kd3Fg0Ys2Ta7Ue4Io9Pa5Sd8Qz1Xw6Ce3Rv0Bn"
HEX = "3f9a17c04be85d2691f7a3c8e0b45d1297fe6034ac8b5d12"
UPPER = "Q7RT2WX9LM4NP8ZC5VB1HJ6KD3FG0YS2TA7UE4IO9PA5SD8QZ"
WORD = "Tr0ub4dor" + "-and-3"
B64 = base64.b64encode(("x7Kp" * 12).encode()).decode()


def alnum(length: int) -> str:
    return (ALNUM * 4)[:length]


def hexa(length: int) -> str:
    return (HEX * 6)[:length]


def upper(length: int) -> str:
    return (UPPER * 4)[:length]


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


JWT = "ey" + "JhbGciOiJIUzI1NiIs.ey" + "JzdWIiOiIxMjM0NTY3." + alnum(43)
UUID = "7c9e6679-7425-40de-944b-" + "e07fc1f90ae7"

# Tokens that are known by their form: where they stand, and the token.
_TOKENS: list[tuple[str, str]] = [
    ("remote: using {} for push", "gh" + "p_" + alnum(36)),
    ("export GH={}", "github" + "_pat_" + alnum(22) + "_" + alnum(59)),
    ("git log: actions used {}", "gh" + "s_" + alnum(36)),
    ("[runner] registered with {}", "gl" + "pat-" + alnum(20)),
    ("pipeline trigger {} fired", "gl" + "ptt-" + hexa(40)),
    ("feed={}", "gl" + "ft-" + alnum(20)),
    ("aws_access_key_id = {}", "AK" + "IA" + upper(16)),
    ("session for {} expires", "AS" + "IA" + upper(16)),
    ("fetch('https://maps.googleapis.com/maps/api/js?key={}')", "AI" + "za" + alnum(35)),
    ("refresh gave {}", "ya" + "29." + alnum(60)),
    ('"client": "{}"', "GOC" + "SPX-" + alnum(28)),
    ("SlackClient({!r})", "xo" + "xb-" + "123456789012-1234567890123-" + alnum(24)),
    ("level 3 token {}", "xa" + "pp-1-A" + upper(10) + "-1234567890123-" + hexa(64)),
    ("stripe.api = '{}'", "sk" + "_live_" + alnum(24)),
    ("curl https://api.stripe.com -u {}:", "rk" + "_test_" + alnum(24)),
    ("endpoint signing {}", "wh" + "sec_" + alnum(32)),
    ("twilio {} rotated", "SK" + hexa(32)),
    ("mail via {}", "S" + "G." + alnum(22) + "." + alnum(43)),
    ("mailgun {}", "ke" + "y-" + hexa(32)),
    ("mailgun now {}", hexa(32) + "-" + hexa(8) + "-" + hexa(8)),
    ("mailchimp {}", hexa(32) + "-us" + "14"),
    ("brevo {}", "xkey" + "sib-" + hexa(64) + "-" + alnum(16)),
    ("//registry.npmjs.org/:_authToken={}", "np" + "m_" + alnum(36)),
    ("twine upload -p {}", "py" + "pi-AgEIcHlwaS5vcmc" + alnum(60)),
    ("docker login with {}", "dckr" + "_pat_" + alnum(27)),
    ("gem push {}", "ruby" + "gems_" + hexa(48)),
    ("hub login {}", "h" + "f_" + alnum(34)),
    ("client = OpenAI('{}')", "sk" + "-proj-" + alnum(60)),
    ("got 401 for {}", "sk" + "-" + alnum(48)),
    ("x-api-key {}", "sk" + "-ant-api03-" + alnum(80)),
    ("groq {}", "gs" + "k_" + alnum(52)),
    ("replicate {}", "r" + "8_" + alnum(37)),
    ("langsmith {}", "ls" + "v2_pt_" + hexa(32) + "_" + hexa(10)),
    ("pinecone {}", "pc" + "sk_" + alnum(60)),
    ("https://api.telegram.org/bot{}/getMe", "712345678" + ":" + alnum(35)),
    ("client.run('{}')", "M" + alnum(23) + ".G" + alnum(5) + "." + alnum(38)),
    ("session {} refreshed", JWT),
    ("vault login {}", "hv" + "s." + alnum(90)),
    ("vault old {}", "s" + "." + alnum(24)),
    ("doctl auth init -t {}", "do" + "p_v1_" + hexa(64)),
    ("heroku {}", "HR" + "KU-" + alnum(60)),
    ("shopify {}", "sh" + "pat_" + hexa(32)),
    ("square {}", "sq0" + "atp-" + alnum(22)),
    ("mapbox {}", "sk" + "." + JWT),
    ("sentry-cli {}", "sntr" + "ys_" + alnum(60)),
    ("new relic {}", "NR" + "AK-" + upper(27)),
    ("license {}", hexa(36) + "NR" + "AL"),
    ("jira {}", "ATA" + "TT3xFf" + alnum(60)),
    ("notion {}", "nt" + "n_" + alnum(46)),
    ("notion old {}", "sec" + "ret_" + alnum(43)),
    ("linear {}", "lin" + "_api_" + alnum(40)),
    ("figma {}", "fi" + "gd_" + alnum(40)),
    ("postman {}", "PM" + "AK-" + hexa(24) + "-" + hexa(34)),
    ("grafana {}", "gl" + "sa_" + alnum(32) + "_" + hexa(8)),
    ("pscale {}", "pscale" + "_tkn_" + alnum(43)),
    ("doppler {}", "dp" + ".pt." + alnum(43)),
    ("op signin {}", "A" + "3-" + upper(6) + "-" + upper(11) + "-" + "-".join([upper(5)] * 3)),
    ("op service {}", "op" + "s_eyJ" + alnum(120)),
    ("databricks {}", "da" + "pi" + hexa(32)),
    ("terraform cloud {}", alnum(14) + ".atlas" + "v1." + alnum(66)),
    ("airtable {}", "pa" + "t" + alnum(14) + "." + hexa(64)),
    ("alibaba {}", "LT" + "AI" + alnum(20)),
    ("dynatrace {}", "dt0" + "c01." + upper(24) + "." + upper(64)),
    ("nuget push -k {}", "oy" + "2" + alnum(43).lower()),
    ("netlify {}", "nf" + "p_" + alnum(36)),
    ("sonar {}", "sq" + "u_" + hexa(40)),
    ("supabase {}", "sb" + "p_" + hexa(40)),
    ("tailscale up {}", "ts" + "key-auth-" + alnum(12) + "CNTRL-" + alnum(32)),
    ("age key {}", "AGE-SEC" + "RET-KEY-1" + upper(58)),
    ("oc login {}", "sha256" + "~" + alnum(43)),
    ("circleci {}", "CCI" + "PAT_" + alnum(22) + "_" + hexa(40)),
    ("artifactory {}", "AK" + "Cp" + alnum(69)),
    ("fly {}", "fm" + "2_" + alnum(40) + "/" + alnum(40) + "+" + alnum(30)),
    ("azure app {}", alnum(3) + "8" + "Q~" + alnum(34)),
]

# Secrets that are known by where they stand.
_PLACES: list[tuple[str, str]] = [
    # files of variables, shells
    ("DB_PASS={}", WORD),
    ("STRIPE_KEY={}", alnum(24)),
    ("export DATABASE_PASSWORD='{}'", "p@ss w0rd!"),
    ("SECRET_KEY_BASE={}", hexa(64)),
    ("RAILS_MASTER_KEY={}", hexa(32)),
    ("DJANGO_SECRET_KEY='{}'", "django-insecure-" + alnum(30) + "&^x"),
    ("JWT_SECRET={}", "keyboardcat"),
    ("ALGOLIA_ADMIN_KEY={}", hexa(32)),
    ("DATADOG_APP_KEY={}", hexa(40)),
    ("CLOUDFLARE_API_TOKEN={}", alnum(40)),
    ("TWILIO_AUTH_TOKEN={}", hexa(32)),
    ("HEROKU_API_KEY={}", UUID),
    ("AZURE_CLIENT_SECRET={}", alnum(20)),
    ("REDIS_AUTH={}", alnum(20)),
    ("APP_KEY=base64:{}", B64[:44]),
    ("WP_AUTH_SALT={}", alnum(32)),
    ("MAIL_PASSWORD={}", "abcdefgh"),
    ("API_KEY_2={}", alnum(18)),
    ("GITHUB_TOKEN_RO={}", alnum(20)),
    ("PGPASSWORD={} psql -h db -U app", WORD),
    ("set -x DEPLOY_TOKEN {}", alnum(20)),
    ("setenv NPM_TOKEN {}", alnum(20)),
    ("ENV DB_PASSWORD {}", WORD),
    ('$env:API_TOKEN = "{}"', alnum(20)),
    # YAML, TOML, INI, properties
    ("password: {}", WORD),
    ("  POSTGRES_PASSWORD: {}", WORD),
    ("  password: {}\n  port: 5432", "correcthorse"),
    ("    token: {}", alnum(32)),
    ("    client-key-data: {}", "LS0tLS1C" + B64),
    ("spring.datasource.password={}", WORD),
    ("secret_key = {}", alnum(40)),
    ('db_password = "{}"', WORD),
    ("password = {}\nrepository = pypi", WORD),
    ("PrivateKey = {}=", B64[:43]),
    ("PresharedKey = {}=", B64[:43]),
    ("_auth={}", basic("joe", WORD)),
    ("npmAuthToken: {}", alnum(36)),
    ("BUNDLE_GEM__FURY__IO_TOKEN: {}", alnum(20)),
    ("ansible_become_pass: {}", WORD),
    ("vault_unseal_key: {}", B64[:44]),
    ("pass = {}", alnum(24)),
    ('psk="{}"', WORD),
    ('BUNDLE_GEMS__EXAMPLE__ORG: "joe:{}"', WORD),
    ('npmAuthIdent: "joe:{}"', WORD),
    ("channel_alias: https://conda.example.org/t/{}/x", "jo-" + UUID),
    # JSON
    ('{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}', basic("joe", WORD)),
    ('{{"clientSecret": "{}"}}', alnum(30)),
    ('"dbPassword": "{}",', "hunter2!"),
    ('{{\\"access_token\\": \\"{}\\"}}', alnum(40)),
    ('{{"name": "DB_PASSWORD", "value": "{}"}}', WORD),
    ('{{"kty":"EC","crv":"P-256","d":"{}"}}', alnum(43)),
    ('{{"kty":"oct","k":"{}"}}', alnum(43)),
    ('"private_key_id": "x", "private_key": "-----BEGIN PRIVATE' + ' KEY-----\\n{}"', B64),
    ('"apiKey":"{}"', alnum(39)),
    ('"AccessToken": "{}"', alnum(100)),
    # XML, PHP, code
    ("<password>{}</password>", WORD),
    ('<add key="ApiKey" value="{}"/>', alnum(20)),
    ('<property name="db.password" value="{}"/>', WORD),
    ("define('DB_PASSWORD', '{}');", WORD),
    ("define( 'AUTH_KEY',         '{}' );", "j7|&x Q" + alnum(30)),
    ("$config['smtp_pass'] = '{}';", WORD),
    ('os.environ["API_TOKEN"] = "{}"', alnum(20)),
    ('password: str = "{}"', WORD),
    ('const apiKey = "{}";', alnum(30)),
    ('String dbPassword = "{}";', WORD),
    ('const TOKEN: &str = "{}";', alnum(30)),
    ("client_secret => '{}'", alnum(30)),
    ('token := "{}"', alnum(30)),
    ('conn = connect(user="joe", passwd="{}")', WORD),
    ("secret = b'{}'", alnum(20)),
    # SQL
    ("CREATE USER app WITH PASSWORD '{}';", WORD),
    ("CREATE USER 'app'@'%' IDENTIFIED BY '{}';", WORD),
    ("ALTER ROLE app PASSWORD '{}'", WORD),
    # command lines
    ("curl -u joe:{} https://example.org", WORD),
    ("curl --user 'joe:{}' https://example.org", WORD),
    ("wget --http-password={} https://example.org", WORD),
    ("http -a joe:{} GET example.org", WORD),
    ("mysql -u root -p{} app", WORD),
    ("sshpass -p {} ssh joe@host", WORD),
    ("docker login -u joe -p {} ghcr.io", WORD),
    ("redis-cli -h cache -a {} ping", WORD),
    ("mongosh -u joe -p {} db", WORD),
    ("ldapsearch -D cn=admin -w {} -b dc=x", WORD),
    ("openssl rsa -in k.pem -passin pass:{}", WORD),
    ("vault login --token {}", alnum(26)),
    ("gh secret set X --body x --token={}", alnum(26)),
    ("htpasswd -b users.txt joe {}", WORD),
    ("zip -P {} out.zip a", WORD),
    ("aws configure set aws_secret_access_key {}", alnum(40)),
    ("npm config set //registry.example.org/:_authToken {}", alnum(36)),
    ("helm install x --set db.password={}", WORD),
    ("kubectl create secret generic x --from-literal=password={}", WORD),
    ("az login --service-principal -u id -p {} --tenant t", alnum(34)),
    ("sqlplus scott/{}@orcl", WORD),
    ("Connect-X -Password '{}'", WORD),
    # URLs
    ("https://joe:{}@example.org/x.git", WORD),
    ("https://{}@github.com/o/r.git", alnum(40)),
    ("postgresql://app:{}@db:5432/app", WORD),
    ("mongodb+srv://app:{}@cluster0.example.net/x", WORD),
    ("redis://:{}@cache:6379/0", WORD),
    ("amqps://app:{}@mq/vhost", WORD),
    ("SENTRY=https://{}@o12.ingest.sentry.io/34", hexa(32)),
    ("app:{}@tcp(db:3306)/app?parseTime=true", WORD),
    ("jdbc:oracle:thin:scott/{}@db:1521:x", WORD),
    ("jdbc:mysql://db/app?user=a&password={}", WORD),
    ("Server=db;Database=x;User Id=sa;Password={};Encrypt=yes", WORD),
    ("Server=db;Uid=sa;Pwd={};", WORD),
    ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}==", alnum(86)),
    ("Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey={}=", alnum(43)),
    ("https://b.s3.amazonaws.com/k?X-Amz-Date=20260101T0000Z&X-Amz-Signature={}", hexa(64)),
    ("https://storage.googleapis.com/b/o?X-Goog-Signature={}", hexa(128)),
    ("https://a.blob.core.windows.net/c/b?sv=2022-11-02&se=2026&sig={}", alnum(43) + "%3D"),
    ("https://app.example.org/callback?code={}&state=x", alnum(30)),
    ("https://app.example.org/#access_token={}&expires_in=3600", alnum(60)),
    ("https://hooks.slack.com/services/{}", "T0AB12CD3/B0AB12CD3/" + alnum(24)),
    ("https://discord.com/api/webhooks/112233445566778899/{}", alnum(68)),
    (
        "https://x.webhook.office.com/webhookb2/{}",
        UUID + "@" + UUID + "/IncomingWebhook/" + hexa(32),
    ),
    ("https://hooks.zapier.com/hooks/catch/{}", "1234567/" + alnum(12)),
    ("https://maker.ifttt.com/trigger/x/with/key/{}", alnum(22)),
    ("GET /v1/items?api_key={}&x=1 HTTP/1.1", alnum(32)),
    # headers
    ("Authorization: Basic {}", basic("joe", WORD)),
    ("> authorization: Bearer {}", alnum(30)),
    ("proxy-authorization: Basic {}", basic("joe", WORD)),
    ("Authorization: token {}", alnum(40)),
    ("Cookie: theme=dark; sessionid={}", alnum(32)),
    ("set-cookie: sid={}; Path=/; HttpOnly", alnum(32)),
    ("curl --cookie 'sid={}' https://example.org", alnum(32)),
    ("-H 'X-Api-Key: {}'", alnum(32)),
    ("PRIVATE-TOKEN: {}", alnum(20)),
    ("X-Auth-Key: {}", hexa(37)),
    ("DD-API-KEY: {}", hexa(32)),
    ("Ocp-Apim-Subscription-Key: {}", hexa(32)),
    ("X-Shopify-Access-Token: {}", hexa(32)),
    ("x-functions-key: {}", alnum(54)),
    ("git -c http.extraheader='AUTHORIZATION: basic {}' fetch", basic("x", alnum(30))),
    ("AWS4-HMAC-SHA256 Credential=x/s3/aws4_request, Signature={}", hexa(64)),
    # files of their own
    ("db.example.org:5432:app:joe:{}", WORD),
    ("*:*:*:joe:{}", WORD),
    ("machine example.org login joe password {}", WORD),
    ("machine example.org\n  login joe\n  password {}\n", WORD),
    ("joe:$apr1$Ab3dEf7h${}", "x9" + alnum(20)),
    ("root:$6$Ab3dEf7h${}:19000:0:99999:7:::", alnum(86)),
    ("joe:$2y$10${}", alnum(53)),
    ("joe:{{SSHA}}{}", B64[:32]),
    ("password hash $argon2id$v=19$m=65536,t=3,p=4${}", alnum(22) + "$" + alnum(43)),
    ("pbkdf2_sha256$260000${}", alnum(12) + "$" + B64[:43] + "="),
    ("-----BEGIN OPENSSH PRIVATE" + " KEY-----\n{}\n-----END OPENSSH PRIVATE" + " KEY-----", B64),
    (
        "-----BEGIN PGP PRIVATE"
        + " KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE"
        + " KEY BLOCK-----",
        B64,
    ),
    # logs and prose
    ("2026-01-01 ERROR login failed for joe password={}", WORD),
    ('level=info msg=connected dsn="user=app password={} host=db"', WORD),
    ("DEBUG retry with token={} attempt=2", alnum(30)),
    ("the password is set: password: {}", WORD),
    ("Your API key: {}", alnum(32)),
]

SECRETS: list[tuple[str, str]] = [
    (place.format(secret), secret) for place, secret in [*_TOKENS, *_PLACES]
]

HARMLESS: list[str] = [
    line
    for line in """
credentials: same-origin
credentials: 'include',
fetch(url, {credentials: "omit", mode: "cors"})
password: str
password: Optional[str] = None
token: str | None = None,
def login(self, password: str, token: bytes) -> bool:
token_count = 5
max_tokens: 4096
max_tokens=4096, token_count: 12, tokens: 200000
"max_tokens": 16384,
total_tokens=123456789
author=Jane Doe
author: someone@example.org
authors = ["Jane Doe <jane@example.org>"]
authority: example.org
keyboard: us
keyboard=QWERTY1234567890abcdef
monkey=banana12345678901234
monkeypatch.setattr(module, "value", 12345678)
turkey: a1b2c3d4e5f6a7b8c9d0
hockey=12345
primary_key: true
primary_key=True, autoincrement=True
primary_key = "id_0123456789abcdef01234"
foreign_key="users.id"
sort_key: created_at
partition_key = "tenant#42"
cache_key: v2-linux-3f9a17c04be85d2691f7a3c8
cache-key: node-modules-3f9a17c04be85d2691f7
key: value
key=name
"key": "ArrowDown"
key = lambda item: item[0]
sorted(items, key=str.lower)
session_key=agent:main:telegram:dm:42
idempotency_key: 7c9e6679-7425-40de-944b-e07fc1f90ae7
public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2 joe@host"
translation_key: settings.title.general2
object_key=uploads/2026/01/01/photo-0001.jpg
i18n key: dashboard.header.title
password = getpass.getpass()
password = input("Password: ")
password = os.environ["DB_PASSWORD"]
password = os.environ.get("DB_PASSWORD", "")
token = response.json()["access_token"]
token = secrets.token_urlsafe(32)
api_key = config.api_key
api_key=self.api_key,
apiKey: process.env.API_KEY,
secret = settings.SECRET_KEY
password: user.password,
password=password
token=token,
password = new_password
"token": token,
const token = await getToken();
let token = lexer.next_token();
if token == "EOF":
while (token != null) {
token: Token,
type Token = { kind: string }
password: z.string().min(8),
password: Joi.string().required()
password: { type: String, required: true },
"password": {"type": "string", "minLength": 8},
"password": "string"
"password": "Enter your password",
"passwordHint": "At least 8 characters",
"token": "Invalid or missing token."
password VARCHAR(255) NOT NULL,
password_hash TEXT NOT NULL
token TEXT UNIQUE, created_at TIMESTAMP
CREATE INDEX idx_token ON sessions (token);
SELECT id, password FROM users WHERE email = $1
password=$DB_PASSWORD
password: ${DB_PASSWORD}
password: {{ vault_db_password }}
token: ${{ secrets.GITHUB_TOKEN }}
GITHUB_TOKEN: ${{ github.token }}
API_KEY=<your api key>
API_KEY=your-api-key-here
SECRET_KEY=xxxxxxxxxxxxxxxx
token: ***
password: "********"
password: null
PASSWORD_FILE=/run/secrets/db
token_file: /var/run/token
private_key: /etc/ssl/site.pem
ssl_key = ./certs/server.key
ssh_key_path = ~/.ssh/id_ed25519
token_type: bearer
token_url: https://example.org/oauth/token
secret_name: db-credentials
secretName: tls-cert
secretKeyRef:
secrets: inherit
password_min_length = 12
show_password: false
has_token=True
next_token = "CAIQAA3f9a17c04be85d"
pad_token = "[PAD]"
eos_token: "</s>"
tokenizer = "cl100k_base"
tokenize: true
Token: "#d8dee9",
token = Punctuation
passed: 12, failed: 3
PASS: tests/test_login.py
PASS tests/test_x.py (5.2 s)
compass=north
bypass: true
passenger: 4
passthrough = yes
pwd: /srv/app
PWD=/home/joe/project
OLDPWD=/home/joe/project/src2
secretary: Ms Smith
the secret: nobody reads the manual
Password: minimum eight characters, one digit
Token: expired
token expired at 12:00
a token is a word or part of one
The bearer of this letter may pass.
Bearer authentication is used
authorization: enabled
Authorization: required
auth: basic
auth: true
auth = HTTPBasicAuth(user, password)
auth_type: none
sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
index 83db48f..bf2a5c1 100644
"integrity": "sha512-3f9a17c04be85d2691f7a3c8e0b45d1297fe6034ac8b5d12a3f9a17c04be85d26=="
resolved "https://registry.example.org/lodash/-/lodash-4.17.21.tgz#679591c564c3bffaae8454cf0b3df370c3d6911c"
etag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
uuid: 7c9e6679-7425-40de-944b-e07fc1f90ae7
request_id=7c9e6679-7425-40de-944b-e07fc1f90ae7
trace_id: 4bf92f3577b34da6a3ce929d0e0e4736
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk
<img src="data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7">
SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDsR4SXc6Kn3sPqOhs joe@host
image: registry.example.org/app@sha256:3f9a17c04be85d2691f7a3c8e0b45d1297fe6034ac8b5d12
https://example.com:8080/path?x=1&page=2
https://example.org/search?key=name&sort=asc
https://example.org/?code=404
git@github.com:owner/repo.git
ssh://git@example.org/repo.git
mailto:someone@example.com
user@host:/srv/files
npm_config_registry=https://registry.npmjs.org/
hf_hub_download_of_a_model sk-learn-is-a-library-name
npm install --save-dev typescript@5.4.2
docker run -u 1000:1000 -p 5432:5432 postgres:16
docker run --user node:node app
mysql -u root -p app
redis-cli -h cache -p 6379 ping
curl -u "$USER:$PASS" https://example.org
curl -H "Authorization: Bearer $TOKEN" https://example.org
docker login --username joe --password-stdin
kubectl get secret app -o yaml
--token TOKEN   the token to use
  -p, --password string   Password to use
.key { color: #3f9a17; font: 12px/1.5 "Helvetica" }
.password-field:focus { outline: 2px solid }
a[href="/password/reset"]:hover
<input type="password" name="password" autocomplete="current-password">
<label for="password">Password</label>
<token>identifier</token>
from cryptography.hazmat.primitives import hashes
import { useToken } from './auth'
raise ValueError("password must not be empty")
logger.info("token refreshed for %s", user)
assert redact("password=***") == "password=***"
src/app/auth.py:1200:12: E501 line too long
app.py:1200:5:E501:line-too-long
0.0.0.0:8080->80/tcp
12:30:45.123 INFO listening on :8080
v1.2.3-beta.4+build.5678
AB12-CD34-EF56
ISBN 978-3-16-148410-0
+49 30 123456789
Content-Type: application/json; charset=utf-8
x-request-id: 3f9a17c04be85d2691f7a3c8e0b45d12
cookie: true
cookies: 3
SameSite cookie policy: Lax
signature: def f(a: int) -> str
code: ENOENT
status_code=200
salt = os.urandom(16)
nonce: 12345
dsn = make_dsn(host, port)
pat = re.compile(r"[a-z]+")
jwt = decode(encoded)
""".strip().splitlines()
    if line
]
